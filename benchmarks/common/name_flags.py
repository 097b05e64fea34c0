"""Flags that list some of the names that are known."""

from absl import flags

from benchmarks.common import workloads

# The flags belong to the modules that ask for them.
flags.disclaim_key_flags()


def define(name, known, description, default=None):
    """Defines a flag that lists some of `known`, by default all; returns it."""
    holder = flags.DEFINE_list(name, default or list(known), description)
    flags.register_validator(
        name,
        lambda names: set(names) <= set(known),
        f"must be of {', '.join(known)}",
    )
    return holder


def define_workloads(default, remark=""):
    """Defines --workload, a list of names; returns it."""
    known = ", ".join(workloads.WORKLOADS)
    return flags.DEFINE_list(
        "workload", default, f"Workloads, of {known}{remark}."
    )
