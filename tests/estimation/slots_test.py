"""What optimizers have beside the variables, against built ones."""

import keras
import numpy as np
import pytest

import tf_hsm
from tests.support.estimates import bytes_of
from tf_hsm.estimation import slots

KERAS, OURS = keras.optimizers, tf_hsm.optimizers
SHAPES = [(300, 20), (20,), (5, 6, 7), (101, 103)]
OPTIMIZERS = [
    *(KERAS.SGD(), KERAS.SGD(momentum=0.9), KERAS.Adam(), KERAS.AdamW()),
    *(KERAS.Adam(amsgrad=True), KERAS.Adagrad(), KERAS.RMSprop()),
    *(KERAS.RMSprop(momentum=0.9, centered=True), KERAS.Adadelta()),
    *(KERAS.Adamax(), KERAS.Ftrl(), KERAS.Lion(), KERAS.Lamb(), KERAS.Muon()),
    KERAS.LossScaleOptimizer(KERAS.Adam()),
    *(OURS.SGD(0.1), OURS.SGD(0.1, momentum=0.9), OURS.Adagrad(0.1)),
    *(OURS.RowwiseAdagrad(0.1), OURS.LazyAdam(amsgrad=True), OURS.Lion()),
    *(OURS.LazyAdam(weight_decay=0.1), OURS.RMSprop()),
    *(OURS.RMSprop(momentum=0.9), OURS.RMSprop(centered=True)),
    OURS.RMSprop(momentum=0.9, centered=True),
]
# One of their scalars has the type of the variables.
FLOAT32_ONLY = [KERAS.Nadam(), KERAS.Adafactor()]


def test_who_works_on_rows():
    """LazyAdam does, but for its amsgrad."""
    assert slots.of(OURS.LazyAdam()).works_on_rows
    assert not slots.of(OURS.LazyAdam(amsgrad=True)).works_on_rows
    assert not slots.of(KERAS.Adam()).works_on_rows


class OwnSchedule(KERAS.schedules.LearningRateSchedule):
    def __call__(self, step):
        return 0.1


@pytest.mark.parametrize("rate", [OwnSchedule(), lambda: 0.1])
def test_any_learning_rate(rate):
    optimizer = KERAS.Adam(rate)
    found = slots.of(optimizer)
    assert found.slot_bytes((7, 5), "float32") == 2 * 4 * 35
    assert optimizer._learning_rate is rate


def test_what_scales_losses_is_as_its_inner_optimizer():
    for inner in (KERAS.SGD(0.1, momentum=0.9), OURS.LazyAdam()):
        bare = slots.of(inner)
        scaled = slots.of(KERAS.LossScaleOptimizer(inner))
        for rows in (None, 10):
            for what in ("update_bytes", "update"):
                assert getattr(scaled, what)((99, 5), "float32", rows) == (
                    getattr(bare, what)((99, 5), "float32", rows)
                )


@pytest.mark.parametrize(
    ("optimizer", "dtype"),
    [(o, dtype) for o in OPTIMIZERS for dtype in ("float32", "bfloat16")]
    + [(o, "float32") for o in FLOAT32_ONLY],
    ids=lambda value: getattr(value, "name", value),
)
def test_equal_to_built_slots(optimizer, dtype):
    found = slots.of(optimizer)
    totals = []
    for shapes in ((), SHAPES):
        built = type(optimizer).from_config(optimizer.get_config())
        built.build([keras.Variable(np.zeros(s), dtype=dtype) for s in shapes])
        totals.append(bytes_of(built.variables))
    # Without variables it has its step and the like.
    assert totals[1] - totals[0] == sum(
        found.slot_bytes(shape, dtype) for shape in SHAPES
    )
    # The optimizer that was given is as it was.
    assert not optimizer.built


def test_names():
    assert slots.of("lazy_adam").slot_bytes((7, 5), "bfloat16") == 2 * 4 * 35
    assert slots.of("adam").name == "adam"


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
