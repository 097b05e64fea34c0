"""Flags whose values are counts."""

from absl import flags

# The flags belong to the modules that ask for them.
flags.disclaim_key_flags()


def define(name, default, description):
    """Defines a flag whose value is an integer of at least 1; returns it."""
    return flags.DEFINE_integer(name, default, description, lower_bound=1)


def define_list(name, default, description):
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
