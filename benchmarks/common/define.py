"""Flags whose values are counts, or some of the names that are known."""

from absl import flags

from benchmarks.common import workloads

# The flags belong to the modules that ask for them.
flags.disclaim_key_flags()


def count(name, default, description):
    """Defines a flag whose value is an integer of at least 1; returns it."""
    return flags.DEFINE_integer(name, default, description, lower_bound=1)


def counts(name, default, description):
    """Defines a flag that lists integers of at least 1; returns it."""
    holder = flags.DEFINE_list(name, default, description)
    flags.register_validator(
        name,
        lambda texts: texts and all(t.isdigit() and int(t) > 0 for t in texts),
        "must be whole numbers from 1, with commas between them",
    )
    return holder


def numbers(texts):
    """Returns the value of such a list as integers, without repetitions."""
    return tuple(dict.fromkeys(map(int, texts)))


def names(name, known, description, default=None):
    """Defines a flag that lists some of `known`, by default all; returns it."""
    holder = flags.DEFINE_list(name, default or list(known), description)
    flags.register_validator(
        name,
        lambda names: set(names) <= set(known),
        f"must be of {', '.join(known)}",
    )
    return holder


def workloads_of(default):
    """Defines --workload, a list of names; returns it."""
    known = workloads.WORKLOADS
    return names("workload", known, f"Of {', '.join(known)}.", default)
