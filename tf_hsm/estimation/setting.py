"""The training step that an estimate is for."""

import dataclasses
from typing import Any

BYTES = {"float16": 2, "bfloat16": 2, "float32": 4, "float64": 8}
# The types of the variables of a model: quantized layers have codes.
VARIABLE_BYTES = {**BYTES, "int8": 1, "uint8": 1}


@dataclasses.dataclass(frozen=True)
class Setting:
    """What every part of a model must know of the step.

    Attributes:
      batch: sequences, or examples, in a step.
      length: the length of a sequence; 1 for examples without one.
      dtype: of the variables: "float32", "bfloat16", ...
      compute_dtype: of the activations: another one under a mixed policy.
      slots: what the optimizer of the model needs, a `Slots`.
      labels_per_example: the mean number of labels that an example has.
    """

    batch: int
    length: int
    dtype: str
    compute_dtype: str
    slots: Any
    labels_per_example: float = 1.0

    @property
    def tokens(self):
        """Labels in a step: B of the formulas of a head."""
        return self.batch * self.length

    @property
    def itemsize(self):
        """Bytes of a number of a variable."""
        return BYTES[self.dtype]

    @property
    def accumulator_itemsize(self):
        """Bytes of a number of losses, of dx and of probabilities."""
        return max(self.itemsize, 4)

    @property
    def compute_itemsize(self):
        """Bytes of a number of an activation."""
        return BYTES[self.compute_dtype]

    def of_examples(self, count):
        """Returns the setting of so many examples without a length."""
        return dataclasses.replace(self, batch=count, length=1)

    def share(self, share):
        """Returns the setting of a share of all labels, at least of one."""
        return self.of_examples(max(round(self.tokens * share), 1))
