"""What the package says of a model, without training it."""

import dataclasses

from benchmarks.common import machine as this_machine
from benchmarks.estimate import heads, models
from benchmarks.estimate.trained import make_model, optimizer_of
from tf_hsm.estimation import (
    body,
    machine,
    memory,
    slots,
    step_time,
)
from tf_hsm.estimation import heads as estimated_heads
from tf_hsm.estimation.setting import Setting

_PASSES = ("forward", "backward", "update")


def estimate(name, threads, values):
    """Estimates a model.

    To be called in a process of its own, as it makes Keras models.

    Args:
      name: one of `models.MODELS`.
      threads: the number of threads.
      values: numbers of a `Machine` as a dict, or None.

    Returns:
      A dict that JSON can hold, as that of `trained.measure`; and "parts", a
      list of dicts.
    """
    this_machine.use_threads(threads)
    model = models.MODELS[name]
    setting = Setting(
        model.batch,
        model.length or 1,
        "float32",
        "float32",
        slots.of(optimizer_of(model)),
    )
    parts = parts_of(model, setting)
    seconds = step_time.seconds(parts, machine.of(values), setting)
    return {
        "parameters": sum(p.parameter_bytes for p in parts),
        "slots": sum(p.slot_bytes for p in parts),
        "gradients": sum(p.gradient_bytes for p in parts),
        "peak": memory.peak_bytes(parts),
        "ms": 1000 * sum(map(sum, seconds)),
        "flops": sum(p.forward.flops for p in parts),
        "parts": [
            _part(part, times)
            for part, times in zip(parts, seconds, strict=True)
        ],
    }


def parts_of(model, setting):
    """The parts of a body and a head, or of the Keras model that has both."""
    is_layer = isinstance(model.head, heads.LayerHead)
    if is_layer and model.vocabulary is not None:
        return body.of(make_model(model)).parts(setting)
    head = estimated_heads.head(
        model.head.what, model.head.num_classes, **model.head.options
    )
    if model.vocabulary is None:  # too large to be made here
        return head.parts(setting, model.width)
    own = body.of(model.make_body())
    return [*own.parts(setting), *head.parts(setting, own.width)]


def _part(part, seconds):
    values = dataclasses.asdict(dataclasses.replace(part, seconds=None))
    values["ms"] = dict(zip(_PASSES, (1000 * s for s in seconds), strict=True))
    return {
        name: value._asdict() if hasattr(value, "_asdict") else value
        for name, value in values.items()
        if value or name == "name"
    }
