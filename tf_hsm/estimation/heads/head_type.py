"""What a head is to an estimate."""

import dataclasses
import math
from typing import Any

from tf_hsm.estimation.part import Part


@dataclasses.dataclass(frozen=True)
class HeadEstimate:
    """A softmax over classes, with its loss.

    A subclass has the method `_parts(setting, width)`, which returns the parts
    for one label of each input.

    Attributes:
      name: in reports.
      num_classes: N.
      array_bytes: bytes of the arrays that its loss reads for the labels.
      options: the `TreeOptions` of a head that may have an optimizer of its
        own; None for other heads.
    """

    name: str
    num_classes: int
    array_bytes: int = dataclasses.field(default=0, kw_only=True)
    options: Any = dataclasses.field(default=None, kw_only=True)

    takes_several_labels = False  # knows setting.labels_per_example
    width = None  # the width of its inputs, if the head knows the width
    takes_ids = False  # whether its inputs are ids, not vectors

    def parts(self, setting, width) -> list[Part]:
        """Returns its parts, for inputs `[setting.tokens, width]`.

        Several labels of an example are so many paths, for which the inputs of
        the example are repeated.
        """
        labels, repeated = setting.labels_per_example, 0
        if labels != 1 and self.takes_several_labels:
            batch = max(math.ceil(setting.batch * labels), 1)
            setting = dataclasses.replace(
                setting, batch=batch, labels_per_example=1.0
            )
            repeated = setting.compute_itemsize * setting.tokens * width
        first, *others = self._parts(setting, width)
        first = dataclasses.replace(
            first,
            saved_bytes=first.saved_bytes + repeated,
            constant_bytes=first.constant_bytes + self.array_bytes,
        )
        return [first, *others]

    def parts_of(self, shape, setting) -> list[Part]:
        """Returns its parts, for inputs of a shape with all sizes known."""
        *leading, width = shape
        return self.parts(setting.of_examples(math.prod(leading)), width)

    def in_place(self, optimizer):
        """Returns this head with an optimizer of its own.

        Returns None where the head has one, or cannot have one.
        """
        if self.options is None or self.options.optimizer is not None:
            return None
        options = dataclasses.replace(self.options, optimizer=optimizer)
        return dataclasses.replace(self, options=options)

    def over_replicas(self, count):
        """Returns this head where so many replicas train the model."""
        del count
        return self
