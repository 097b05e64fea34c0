"""What a head is to an estimate."""

import abc
import dataclasses

from tf_hsm.estimation.part import Part


@dataclasses.dataclass(frozen=True)
class Head(abc.ABC):
    """A softmax over classes, with its loss.

    Attributes:
      name: in reports.
      num_classes: N.
    """

    name: str
    num_classes: int

    takes_several_labels = False  # knows setting.labels_per_example

    @abc.abstractmethod
    def parts(self, setting, width) -> list[Part]:
        """Returns its parts, for inputs `[setting.tokens, width]`."""
