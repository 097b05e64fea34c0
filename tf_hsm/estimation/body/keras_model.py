"""The parts of a Keras model: a walk along its calls."""

import dataclasses

import keras

from tf_hsm.estimation import heads
from tf_hsm.estimation.body import formulas, layer_part, traced
from tf_hsm.runtime import private_keras


def parts(model, setting, has_head, dtype=None, prefix="", known=None):
    """Returns the `Part`s of a model, in the order of its calls.

    Args:
      model: a Keras model, Functional or Sequential if its layers are to be
        told apart.
      setting: the `Setting`.
      has_head: whether its last layer, if that is `Dense`, is a head.
      dtype: of all variables; None: their own.
      prefix: of the names.
      known: ids of layers whose variables are counted already.
    """
    calls = private_keras.calls_of(model)
    known = set() if known is None else known
    if calls is None:
        return [_whole(model, setting, prefix)]
    ends = {id(t) for t in private_keras.outputs_of(model)}
    found = []
    for call in calls:
        layer, inputs, outputs, _ = call
        if isinstance(layer, keras.layers.InputLayer):
            continue
        name = f"{prefix}{layer.name}"
        shapes = [_filled(t.shape, setting) for t in inputs]
        if isinstance(layer, keras.Model):
            found += parts(layer, setting, False, dtype, f"{name}/", known)
            continue
        head = heads.of_layer(layer)
        is_last = any(id(t) in ends for t in outputs)
        if has_head and is_last and type(layer) is keras.layers.Dense:
            head = heads.of(layer)
        if head is not None:
            found += _head_parts(head, shapes[0], setting, name)
            continue
        variables = []
        if id(layer) not in known and isinstance(layer, keras.layers.Layer):
            variables = layer_part.variables_of(layer, shapes)
        if dtype is not None:
            variables = [(v[0], dtype, v[2]) for v in variables]
        known.add(id(layer))
        formula = formulas.formula_of(
            layer,
            shapes,
            [t.dtype for t in inputs],
            _filled(outputs[0].shape, setting),
            setting,
            call.filled,
        )
        found.append(
            layer_part.part(
                name, type(layer).__name__, variables, formula, setting
            )
        )
    return found


def _whole(model, setting, prefix):
    """A model whose calls are not known beforehand, traced as one."""
    # Built for whatever batch it was called with.
    shapes = [
        _filled((None, *shape[1:]), setting)
        for shape in private_keras.build_shapes_of(model)
    ]
    # Nothing tells whether it takes numbers or ids.
    for dtype in ("float32", "int32"):
        dtypes = [dtype] * len(shapes)
        formula = traced.formula(model, shapes, dtypes, None)
        if formula.forward.flops:
            break
    return layer_part.part(
        f"{prefix}{model.name}",
        type(model).__name__,
        layer_part.variables_of(model, shapes),
        formula,
        setting,
    )


def _head_parts(head, shape, setting, name):
    """Those of a head for inputs `[..., width]`, each with one label."""
    *leading, width = shape
    examples = 1
    for size in leading:
        examples *= size
    step = dataclasses.replace(setting, batch=examples, steps=1)
    found = head.parts(step, width)
    return [part.named(part.name.replace(head.name, name, 1)) for part in found]


def _filled(shape, setting):
    """Replaces what is not known: first the batch, then steps."""
    return tuple(
        size if size is not None else setting.steps if place else setting.batch
        for place, size in enumerate(shape)
    )
