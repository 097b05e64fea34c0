"""What `estimate` returns."""

import dataclasses
import math
from collections.abc import Callable

from tf_hsm.cost.gradient_costs import exchanged_bytes
from tf_hsm.estimation import report, step
from tf_hsm.estimation.machine import Machine
from tf_hsm.estimation.part import NO_WORK, Part, Setting

# Resident beside all tensors: the interpreter, TensorFlow, Keras, this package,
# and the graphs of a step: `//benchmarks:estimate` of commit a1d0e13d measured
# 700 MB.
PROCESS_BYTES = 700 * 10**6
_SAVED = 0.1  # the least share that an alternative saves


@dataclasses.dataclass(frozen=True)
class Replicas:
    """Data parallel training: every device has the model and a part of a batch.

    Attributes:
      count: the devices.
      network: bytes a second that a device sends, and receives.
      wire_bytes: the bytes that each device sends in a step, and receives: the
        gradients, summed around a ring or gathered.
    """

    count: int
    network: float
    wire_bytes: float

    @classmethod
    def of(cls, parts, count, network):
        """Returns the `Replicas` of a model; None for one device."""
        if count == 1:
            return None
        sent = 0.0
        for part in parts:
            size = exchanged_bytes(
                part.gradient_bytes, count, is_sparse=part.is_sparse
            )
            if part.summed_bytes:
                summed = exchanged_bytes(
                    part.summed_bytes, count, is_sparse=False
                )
                size = min(size, summed)
            sent += size
        return cls(count, network, sent)

    @property
    def seconds(self):
        """What the network takes for a step."""
        return self.wire_bytes / self.network


def _sum_of(name, doc):
    """Returns a property of an `Estimate`: the sum of a field of its parts."""
    return property(
        lambda found: sum(getattr(part, name) for part in found.parts), doc=doc
    )


@dataclasses.dataclass(frozen=True)
class Estimate:
    """What a training step of a model needs, before the model is made.

    Bytes and FLOPs are for one device. Print it for a table.

    Attributes:
      name: of the model: its body and its head.
      parts: a `Part` for each layer, in the order of the forward.
      seconds: for each part, `(forward, backward, update)`.
      setting: the step: `batch`, `length` and types. With replicas, what one of
        them has.
      labels: in a step of one device.
      machine: the `Machine` that times are for.
      memory: bytes that there are; None if unknown.
      corpus_tokens: labels in an epoch, or None.
      replicas: the `Replicas`, or None for one device.
      find_alternatives: computes what `alternatives` chooses from, or None.
    """

    name: str
    parts: tuple[Part, ...]
    seconds: tuple[tuple[float, float, float], ...]
    setting: Setting
    labels: int
    machine: Machine
    memory: float | None = None
    corpus_tokens: float | None = None
    replicas: Replicas | None = None
    find_alternatives: Callable[[], tuple] | None = dataclasses.field(
        default=None, repr=False, compare=False
    )

    @property
    def alternatives(self) -> tuple[tuple[str, "Estimate"], ...]:
        """Other optimizers that need a tenth less memory or time.

        Pairs of the arguments of `estimate` that differ, as a text, and what
        the step needs with these.
        """
        most = 1 - _SAVED
        return tuple(
            (text, other)
            for text, other in (self.find_alternatives or tuple)()
            if other.peak_bytes <= most * self.peak_bytes
            or other.milliseconds <= most * self.milliseconds
        )

    parameters = _sum_of("parameters", "Numbers in all variables of the model.")
    parameter_bytes = _sum_of("parameter_bytes", "Bytes of these.")
    gradient_bytes = _sum_of(
        "gradient_bytes", "Bytes of the gradients by variables."
    )
    slot_bytes = _sum_of(
        "slot_bytes", "Bytes of what optimizers have for the variables."
    )
    saved_bytes = _sum_of(
        "saved_bytes", "Bytes that the forward keeps for the backward."
    )

    @property
    def temporary_bytes(self) -> float:
        """Bytes at the peak beside parameters, slots, gradients and saved."""
        known = step.persistent_bytes(self.parts)
        known += self.gradient_bytes + self.saved_bytes
        return max(self.peak_bytes - known, 0)

    @property
    def peak_bytes(self) -> float:
        """The most bytes that the model has at a time, while made or trained.

        Beside them is the process itself, about `PROCESS_BYTES`.
        """
        return step.peak_bytes(self.parts)

    @property
    def flops(self) -> tuple[float, float, float]:
        """FLOPs of a step: `(forward, backward, update)`."""
        return tuple(
            sum((getattr(p, name) for p in self.parts), NO_WORK).flops
            for name in ("forward", "backward", "update")
        )

    @property
    def milliseconds(self) -> float:
        """What a step takes; with replicas, the network after the backward."""
        wire = self.replicas.seconds if self.replicas else 0
        return 1000 * (sum(map(sum, self.seconds)) + wire)

    @property
    def tokens_per_second(self) -> float:
        """Labels that are learnt from in a second, by all devices.

        Infinity for a model that computes nothing.
        """
        if not self.milliseconds:
            return math.inf
        devices = self.replicas.count if self.replicas else 1
        return 1000 * devices * self.labels / self.milliseconds

    @property
    def hours_per_epoch(self) -> float | None:
        """Hours for `corpus_tokens`."""
        if self.corpus_tokens is None:
            return None
        return self.corpus_tokens / self.tokens_per_second / 3600

    @property
    def fits(self) -> bool | None:
        """Whether model and process have at most `memory`."""
        return None if self.memory is None else self.spare_bytes >= 0

    @property
    def spare_bytes(self) -> float | None:
        """What is left of `memory`, or, negative, missing."""
        if self.memory is None:
            return None
        return self.memory - self.peak_bytes - PROCESS_BYTES

    @property
    def uncounted(self) -> tuple[str, ...]:
        """What is in no number here: names, with reasons."""
        return tuple(
            f"{part.name}: {what}"
            for part in self.parts
            for what in part.uncounted
        )

    def to_dict(self) -> dict:
        """Returns all of it as what JSON can hold."""
        return report.to_dict(self)

    def __str__(self) -> str:
        """Returns the table."""
        return report.report(self)


@dataclasses.dataclass(frozen=True)
class Comparison:
    """Estimates side by side, of one body with several heads.

    Attributes:
      estimates: an `Estimate` for each.
    """

    estimates: tuple[Estimate, ...]

    def __iter__(self):
        """Iterates over the estimates."""
        return iter(self.estimates)

    def __len__(self) -> int:
        """Their number."""
        return len(self.estimates)

    def __getitem__(self, index) -> Estimate:
        """One of them."""
        return self.estimates[index]

    def to_dict(self) -> dict:
        """Returns all of it as what JSON can hold."""
        return {"estimates": [e.to_dict() for e in self.estimates]}

    def __str__(self) -> str:
        """Returns a table with a line for each."""
        return report.compare(self.estimates)
