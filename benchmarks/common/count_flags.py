"""Flags whose values are counts."""

from absl import flags

# The flags belong to the modules that ask for them.
flags.disclaim_key_flags()


def define(name, default, description):
    """Defines a flag whose value is an integer of at least 1; returns it."""
    return flags.DEFINE_integer(name, default, description, lower_bound=1)
