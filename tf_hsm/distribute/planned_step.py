"""The step that a plan is for."""

import dataclasses
import math
import numbers

import numpy as np

from tf_hsm import _checks
from tf_hsm.cost.gradient_costs import copies_bytes, sparse_bytes
from tf_hsm.cost.model import CostModel

_BYTES = {"bfloat16": 2, "float16": 2, "float32": 4, "float64": 8}


@dataclasses.dataclass(frozen=True, kw_only=True)
class Step:
    """The step that a plan assumes.

    Attributes:
      batch: the examples in it, of all devices together; or None.
      width: D, the width of the inputs, or None.
      slots: how many numbers an optimizer has for each weight.
      dtype: of weights and inputs; slots of 16-bit ones have 32 bits.
      network: bytes a second into, and out of, the device of the body; or each
        replica.
      cost_model: the `CostModel` of a device.
      on_replicas: whether each device is a replica, which computes the body and
        the top for its part of the batch, and has a copy of the top. Otherwise
        one more device has the body and the top.

    Raises:
      ValueError: one of them is out of its range.
    """

    batch: int | None = None
    width: int | None = None
    slots: int = 1
    dtype: str = "float32"
    network: float = 1.25e9
    cost_model: CostModel = dataclasses.field(default_factory=CostModel)
    on_replicas: bool = False

    def __post_init__(self):
        """Checks all of it."""
        for name, minimum in (("batch", 1), ("width", 1), ("slots", 0)):
            value = getattr(self, name)
            if name == "slots" or value is not None:
                value = _checks.check_int(name, value, minimum)
                object.__setattr__(self, name, value)
        dtype = getattr(self.dtype, "name", self.dtype)
        object.__setattr__(self, "dtype", dtype)
        if dtype not in _BYTES:
            raise ValueError(
                f"dtype is {dtype!r}; it must be one of {', '.join(_BYTES)}"
            )
        check_rate("network", self.network)
        if not isinstance(self.cost_model, CostModel):
            raise TypeError(
                "cost_model must be a CostModel, not "
                f"{type(self.cost_model).__name__}"
            )

    def bytes_of(self, rows):
        """Returns the bytes of weights, biases and slots of some rows."""
        size = _BYTES[self.dtype]
        return rows * (self.width + 1) * (size + self.slots * max(size, 4))

    def sent_bytes(self, leaving, arriving, num_classes):
        """Returns the bytes that a device sends for examples.

        The device receives `sent_bytes(arriving, leaving, num_classes)`.

        Args:
          leaving: examples that it sends to shards of other devices: inputs,
            labels and the gradients by the losses.
          arriving: examples of other devices, whose losses and gradient by the
            inputs it sends back.
          num_classes: N; labels have 32 bits where N < 2**31, else 64 bits.
        """
        vector = self.width * _BYTES[self.dtype]
        loss = max(_BYTES[self.dtype], 4)
        label = 4 if num_classes < 2**31 else 8
        return leaving * (vector + label + loss) + arriving * (vector + loss)

    def wire_bytes(self, examples, num_classes):
        """Returns the bytes of examples that go to a shard and come back."""
        return self.sent_bytes(examples, examples, num_classes)

    def top_gradient_bytes(self, rows, touched_rows, replicas):
        """Returns the bytes that each replica sends to sum its gradients.

        Args:
          rows: of the top.
          touched_rows: how many of them a replica has touched.
          replicas: their number.

        Returns:
          The bytes, and whether they are of all rows.
        """
        return copies_bytes(
            rows, touched_rows, self.width, max(_BYTES[self.dtype], 4), replicas
        )

    def gathered_bytes(self, touched_rows):
        """Returns the bytes of a gradient of rows, sent to one replica."""
        size = max(_BYTES[self.dtype], 4)
        return sparse_bytes(touched_rows, self.width, size)

    def parameter_bytes(self, touched_rows):
        """Returns the bytes of touched rows that are fetched, and of dW."""
        return 2 * touched_rows * (self.width + 1) * _BYTES[self.dtype]

    def milliseconds(self, rows, touched_rows):
        """Returns the milliseconds of a call, forward and backward.

        All examples together score `rows`; any of them scores `touched_rows`.
        """
        model = self.cost_model
        return (
            model.call
            + model.weights(touched_rows, width=self.width)
            + model.products(rows, 1, width=self.width)
        )

    def wire_milliseconds(self, wire_bytes):
        """Returns the milliseconds of bytes, half of them in each direction."""
        return 1e3 * wire_bytes / 2 / self.network

    def exchange_milliseconds(self, leaving, arriving, num_classes):
        """Returns the milliseconds in which a replica exchanges examples.

        Replicas exchange inputs, and later results: each time, a replica sends
        and receives at once. It takes the arguments of `sent_bytes`.
        """
        most = np.maximum(leaving, arriving)
        return 1e3 * self.wire_bytes(most, num_classes) / self.network

    def get_config(self):
        """Returns all of it as a dict that JSON can hold."""
        return dataclasses.asdict(self)

    @classmethod
    def from_config(cls, config):
        """Makes the step that `get_config` described."""
        model = CostModel(**config["cost_model"])
        return cls(**{**config, "cost_model": model})

    @classmethod
    def of(cls, bandwidth, cost_model, **options):
        """Makes a step; `bandwidth` replaces the rate of the cost model.

        A device reads or writes `bandwidth` bytes of weights, or of their
        gradient, in a second.
        """
        step = cls(
            cost_model=CostModel() if cost_model is None else cost_model,
            **options,
        )
        if bandwidth is None:
            return step
        # A touched row is read, and written.
        weight = 2e3 * _BYTES[step.dtype] / check_rate("bandwidth", bandwidth)
        model = dataclasses.replace(step.cost_model, weight=weight)
        return dataclasses.replace(step, cost_model=model)


def check_rate(name, value):
    """Returns a rate; ValueError unless it is a positive number."""
    if not isinstance(value, numbers.Real) or not 0 < value < math.inf:
        raise ValueError(
            f"{name} is {value!r}; it must be a positive number, in bytes a "
            "second"
        )
    return value
