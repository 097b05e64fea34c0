"""Steps, and the parameters they share: made once, and only if they fit."""

from collections.abc import Callable, Hashable
from typing import NamedTuple

from benchmarks.common import implementations


class Shared(NamedTuple):
    """Something that several steps work on."""

    key: Hashable  # equal for the steps that share it
    num_bytes: int
    make: Callable  # given what precedes it in the list of a step


def parameters(num_rows, case, read_densely=False):
    """`Shared` parameters of random weights.

    After a sparse read or update, every dense read of a variable copies it:
    steps that read densely have a variable of their own.
    """
    return Shared(
        ("parameters", num_rows, read_densely),
        implementations.parameter_bytes(num_rows, case),
        lambda: implementations.make_parameters(num_rows, case),
    )


class Workbench:
    """Prepares steps within limits."""

    def __init__(self, limits):
        """Makes nothing yet; what is made will be taken from `limits`."""
        self._limits = limits
        self._made = {}

    def prepare(self, shared, step_bytes, seconds, make_step):
        """Makes a step, and those of `shared` that no earlier step has made.

        Args:
          shared: a list of `Shared`.
          step_bytes: what the step needs beside them.
          seconds: what it takes at least.
          make_step: given what `shared` stands for.

        Returns:
          (step, None), or (None, why it is refused).
        """
        missing = sum(
            one.num_bytes for one in shared if one.key not in self._made
        )
        refusal = self._limits.refusal(missing, step_bytes, seconds)
        if refusal:
            return None, refusal
        self._limits.take(missing)
        made = []
        for key, _, make in shared:
            if key not in self._made:
                self._made[key] = make(*made)
            made.append(self._made[key])
        return make_step(*made), None
