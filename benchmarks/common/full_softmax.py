"""The parameters of a flat softmax of the size of a head."""

from benchmarks.common import implementations


class SharedParameters:
    """Makes them once, when they are first asked for."""

    def __init__(self, head, limits):
        """Makes nothing yet; `limits` will count them."""
        self._head = head
        self._limits = limits
        self._parameters = None

    @property
    def missing_bytes(self):
        """What making them would take; 0 when they are there."""
        if self._parameters is not None:
            return 0
        return implementations.parameter_bytes(
            self._head.sizes.num_classes, self._head
        )

    def get(self):
        """Returns `_implementations.Parameters`, a row for each class."""
        if self._parameters is None:
            self._limits.take(self.missing_bytes)
            self._parameters = implementations.make_parameters(
                self._head.sizes.num_classes, self._head
            )
        return self._parameters
