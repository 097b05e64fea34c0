"""What optimizers have beside the variables, against built ones."""

import math

import keras
import numpy as np
import pytest

import tf_hsm
from tf_hsm.estimation import slots

SHAPES = [(300, 20), (20,), (5, 6, 7), (101, 103)]
OPTIMIZERS = [
    keras.optimizers.SGD(),
    keras.optimizers.SGD(momentum=0.9),
    keras.optimizers.Adam(),
    keras.optimizers.Adam(amsgrad=True),
    keras.optimizers.AdamW(),
    keras.optimizers.Adagrad(),
    keras.optimizers.RMSprop(),
    keras.optimizers.RMSprop(momentum=0.9, centered=True),
    keras.optimizers.Adadelta(),
    keras.optimizers.Adamax(),
    keras.optimizers.Ftrl(),
    keras.optimizers.Lion(),
    keras.optimizers.Lamb(),
    keras.optimizers.Muon(),
    keras.optimizers.LossScaleOptimizer(keras.optimizers.Adam()),
    tf_hsm.optimizers.SGD(0.1),
    tf_hsm.optimizers.SGD(0.1, momentum=0.9),
    tf_hsm.optimizers.Adagrad(0.1),
    tf_hsm.optimizers.RowwiseAdagrad(0.1),
    tf_hsm.optimizers.LazyAdam(amsgrad=True),
]
# One of their scalars has the type of the variables.
FLOAT32_ONLY = [keras.optimizers.Nadam(), keras.optimizers.Adafactor()]


@pytest.mark.parametrize(
    ("optimizer", "dtype"),
    [(o, dtype) for o in OPTIMIZERS for dtype in ("float32", "bfloat16")]
    + [(o, "float32") for o in FLOAT32_ONLY],
    ids=lambda value: getattr(value, "name", value),
)
def test_equal_to_built_slots(optimizer, dtype):
    found = slots.of(optimizer)
    built = type(optimizer).from_config(optimizer.get_config())
    built.build([keras.Variable(np.zeros(s), dtype=dtype) for s in SHAPES])
    expected = 0
    for variable in built.variables:
        size = {"bfloat16": 2}.get(variable.dtype)
        size = size or np.dtype(variable.dtype).itemsize
        expected += size * math.prod(variable.shape)
    assert expected == found.scalar_bytes + sum(
        found.slot_bytes(shape, dtype) for shape in SHAPES
    )
    # The optimizer that was given is as it was.
    assert not optimizer.built


def test_names():
    assert slots.of("lazy_adam").slot_bytes((7, 5), "bfloat16") == 2 * 4 * 35
    assert slots.of("adam").name == "adam"
    assert slots.of(None).slot_bytes((7, 5), "float32") == 0
    assert slots.of(None).scalar_bytes == 0


def test_sparse_gradients_are_made_dense_by_keras():
    """Keras' Adam has tensors of the whole table, ours of nothing."""
    shape, rows = (1_000_000, 300), 400
    table = 4 * 300 * 1_000_000
    assert slots.of("adam").update_bytes(shape, "float32", rows) >= 2 * table
    assert slots.of("sgd").update_bytes(shape, "float32", rows) == 0
    assert slots.of("lazy_adam").update_bytes(shape, "float32", rows) == 0
    lazy = slots.of("lazy_adam").update(shape, "float32", rows)
    assert lazy.bytes < 10 * 4 * 300 * rows
    assert slots.of("adam").update(shape, "float32", rows).bytes > table


def test_an_optimizer_of_another_kind_says_so():
    assert slots.of("adam").uncounted == ()
    assert "Ftrl" in slots.of("ftrl").uncounted[0]


def test_bad_optimizers():
    with pytest.raises(ValueError, match="optimizer is 'adamm'; it must be a"):
        slots.of("adamm")
    with pytest.raises(TypeError, match="must be a name, a Keras optimizer"):
        slots.of(3)
