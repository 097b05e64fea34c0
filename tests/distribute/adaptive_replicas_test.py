"""An adaptive softmax over replicas trains as one on one device does."""

import functools
import itertools

import keras
import numpy as np
import pytest
import tensorflow as tf

from tests.support import replicated_heads as heads
from tests.support import replicated_tails as tails
from tests.support.training import assert_near
from tests.support.update_rules import OPTIMIZERS
from tf_hsm import serving
from tf_hsm.runtime.replicas import copies_of

RULES = dict(zip(tails.FORMS, itertools.cycle(OPTIMIZERS), strict=False))


@functools.cache
def expected(form):
    """The start of a head on one device, and what its training gives."""
    head = tails.make_head(form, RULES[form])
    return heads.start_of(head), tails.train(head)


@pytest.mark.parametrize(
    "form, count",
    [
        ("three", 1),
        ("three", 2),
        ("three", 4),
        ("three", 8),
        ("one", 4),
        ("none", 2),
        ("wide", 2),
    ],
)
def test_as_on_one_device(form, count):
    """Losses, gradients, weights and slots; replicas may have no example.

    Labels may all be in one tail, and replicas may have several tails or none.
    """
    start, wanted = expected(form)
    head = tails.make_head(form, RULES[form], count, seed=1)
    head.load_own_variables(start)
    assert_near(tails.train(head, count), wanted, 1e-13)
    heads.assert_copies_agree(head)


@pytest.mark.parametrize(
    "options, tolerance",
    [
        ({"label_smoothing": 0.1, "smoothing_prior": tails.COUNTS}, 1e-13),
        ({"focal_gamma": 2.0, "class_weights": heads.COUNTS}, 1e-13),
        ({"use_bias": "head"}, 1e-13),
        ({"dtype": "mixed_bfloat16"}, 2e-2),
    ],
)
def test_options(options, tolerance):
    one, several = (
        tails.make_head("three", "adagrad", count, **options)
        for count in (None, 4)
    )
    several.load_own_variables(heads.start_of(one))
    wanted = tails.train(one, steps=6)
    assert_near(tails.train(several, 4, steps=6), wanted, tolerance)


def test_where_variables_are():
    """Each tail and its slots are on one replica alone."""
    head = tails.make_head("three", "lazy_adam", 2)
    rows = zip(head.tail_kernels, head.tail_biases, strict=True)
    for pair, number in zip(rows, [0, 1, 0], strict=True):
        slots = [x for v in pair for x in head.optimizer.slots(v)]
        for variable in (*pair, *slots):
            (only,) = copies_of(variable)
            assert only.device.endswith(f"CPU:{number}")
    for variable in (
        head.head_kernel,
        *head.optimizer.slots(head.head_kernel),
        *head.projections,
    ):
        assert len(copies_of(variable)) == 2


def test_what_each_replica_computes():
    """The steps of its tails, and its own examples of the shortlist."""
    head = tails.make_head("three", "sgd", 2)
    strategy = heads.strategy_of(2)
    batch = [heads.split(strategy, x) for x in next(tails.batches())]
    step = tails.step_of(head, tails.make_optimizer(head, 2))
    run = tf.function(lambda *x: strategy.run(step, x), autograph=False)
    operations = run.get_concrete_function(*batch).graph.get_operations()
    devices = {
        kind: sorted(op.device[-1] for op in operations if op.type == kind)
        for kind in ("ResourceTfHsmLoss", "ResourceTfHsmLossStep")
    }
    assert list(devices.values()) == [list("00011"), list("001")]


@functools.cache
def trained():
    """A head over 2 replicas after a few steps."""
    head = tails.make_head("three", "lazy_adam", 2)
    tails.train(head, 2, steps=3)
    return head


def model_of(head):
    return keras.Sequential([keras.Input([tails.WIDTH]), head])


def test_export(tmp_path):
    """A head over replicas is served from one device."""
    model = model_of(trained())
    serving.export(model, str(tmp_path / "served"), k=4)
    served = tf.saved_model.load(str(tmp_path / "served"))
    signature = served.signatures["serving_default"]
    rng = np.random.default_rng(0)
    inputs = rng.normal(size=(5, tails.WIDTH)).astype("f4")
    found = signature(inputs=tf.constant(inputs))
    np.testing.assert_array_equal(
        found["classes"], trained().top_k(inputs, 4).classes
    )


def test_grow():
    """New rows need all rows in one place."""
    with (
        heads.strategy_of(2).scope(),
        pytest.raises(ValueError, match="grow is not possible with devices="),
    ):
        trained().grow(tails.N + 5)
