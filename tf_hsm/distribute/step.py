"""The step that a plan is for."""

import dataclasses
import math
import numbers

from tf_hsm import _checks
from tf_hsm.cost.model import CostModel

_BYTES = {"bfloat16": 2, "float16": 2, "float32": 4, "float64": 8}


@dataclasses.dataclass(frozen=True, kw_only=True)
class Step:
    """What a plan takes a step to be.

    Attributes:
      batch: the examples in it, or None.
      width: D, the width of the inputs, or None.
      slots: how many numbers an optimizer has for each weight.
      dtype: of weights and inputs; slots of 16-bit ones have 32 bits.
      network: bytes a second into, and out of, the device of the body.
      cost_model: the `CostModel` of a device.

    Raises:
      ValueError: one of them is out of its range.
    """

    batch: int | None = None
    width: int | None = None
    slots: int = 1
    dtype: str = "float32"
    network: float = 1.25e9
    cost_model: CostModel = dataclasses.field(default_factory=CostModel)

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

    def wire_bytes(self, examples, num_classes):
        """Returns the bytes that go to a shard and come back.

        They are inputs, labels and weights of losses; the gradient by the
        inputs, and losses.

        Args:
          examples: how many have their label there.
          num_classes: N; labels of 32 bits can tell so many apart, or not.
        """
        size = _BYTES[self.dtype]
        label = 4 if num_classes < 2**31 else 8
        return examples * (2 * self.width * size + label + 2 * max(size, 4))

    def parameter_bytes(self, touched_rows):
        """Returns the bytes of touched rows that are fetched, and of dW."""
        return 2 * touched_rows * (self.width + 1) * _BYTES[self.dtype]

    def milliseconds(self, rows, touched_rows):
        """Returns the milliseconds of a call, forward and backward.

        Args:
          rows: those that are scored, of all examples together.
          touched_rows: those that any example scores.
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

        Args:
          bandwidth: bytes of weights, or of their gradient, that a device reads
            or writes in a second; None for the rate of the cost model.
          cost_model: a `CostModel`, or None for the default one.
          **options: the other attributes.
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
