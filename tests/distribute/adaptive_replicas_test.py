"""An adaptive softmax over replicas trains as one on one device does."""

import functools
import itertools

import keras
import numpy as np
import pytest
import tensorflow as tf

from tests.support import replicated_heads as heads
from tests.support import replicated_tails as tails
from tests.support.training import assert_near, assert_same
from tests.support.update_rules import OPTIMIZERS
from tf_hsm import distribute, serving
from tf_hsm.runtime.replicas import copies_of

RULES = dict(zip(tails.FORMS, itertools.cycle(OPTIMIZERS), strict=False))


@functools.cache
def expected(form):
    """The start of a head on one device, and what its training gives."""
    head = tails.make_head(form, RULES[form])
    return heads.start_of(head), tails.train(head)


def assert_copies_agree(head):
    """What has a copy on each replica has the same bits everywhere."""
    shared = [head.head_kernel, head.head_bias, *tails.projections_of(head)]
    shared += head.optimizer.slots(head.head_kernel)
    for variable in shared:
        first, *others = (copy.numpy() for copy in copies_of(variable))
        assert_same(others, [first] * len(others))


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
    assert_copies_agree(head)


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


def other_head(count):
    """A head with other weights: over replicas; None: on one device."""
    return tails.make_head("three", "lazy_adam", count, seed=1)


@pytest.mark.parametrize("count", [None, 1, 4, 8])
def test_checkpoints(count, tmp_path):
    """A restore elsewhere has the same bits, and so has a restore back."""
    wanted = heads.state(trained())
    saved = distribute.checkpoint(
        trained(), optimizer=tails.make_optimizer(trained(), 2)
    )
    path = saved.save(tmp_path / "two")
    head = other_head(count)
    for target, number in ((head, count), (other_head(2), 2)):
        restored = distribute.checkpoint(
            target, optimizer=tails.make_optimizer(target, number)
        )
        restored.restore(path).assert_consumed()
        assert_same(heads.state(target), wanted)
        assert_copies_agree(target)
        path = restored.save(tmp_path / "others")


def model_of(head):
    return keras.Sequential([keras.Input([tails.WIDTH]), head])


@pytest.mark.parametrize("count", [None, 4])
def test_files_of_weights(count, tmp_path):
    path = tmp_path / "a.weights.h5"
    model_of(trained()).save_weights(path)
    head = other_head(count)
    model_of(head).load_weights(path)
    assert_same(heads.state(head), heads.state(trained()))
    assert_copies_agree(head)


@pytest.mark.parametrize("count", [None, 2, 4])
def test_files_of_models(count, tmp_path):
    """The head takes the replicas that there are; without a strategy, one."""
    path = tmp_path / "a.keras"
    model_of(trained()).save(path)
    strategy = (
        heads.strategy_of(count) if count else tf.distribute.get_strategy()
    )
    with strategy.scope():
        loaded = keras.models.load_model(path)
    (head,) = loaded.layers
    assert head.devices == "replicas"
    devices = {kernel.value.device for kernel in head.tail_kernels}
    assert len(devices) == min(3, count or 1)
    assert_same(heads.state(head), heads.state(trained()))
    assert_copies_agree(head)


QUESTIONS = {
    "log_probs": lambda head, x: head.log_probs(x),
    "log_prob": lambda head, x: head.log_prob(tf.tile([[3, 59, 0]], [4, 1]), x),
    "top_k": lambda head, x: tuple(head.top_k(x, 7)),
    "best": lambda head, x: head.predict_class(x),
    "sample": lambda head, x: head.sample(x, 5, seed=3),
}


@pytest.mark.parametrize("question", QUESTIONS)
def test_answers(question, tmp_path):
    """From outside the strategy, its scope, and a replica: as on one device."""
    path = distribute.checkpoint(trained()).save(tmp_path / "saved")
    one = other_head(None)
    distribute.checkpoint(one).restore(path)
    inputs = np.random.default_rng(0).normal(size=(8, tails.WIDTH))
    ask = QUESTIONS[question]
    wanted = [ask(one, inputs[:4]), ask(one, inputs[4:])]
    assert_near(ask(trained(), inputs[:4]), wanted[0], 1e-12)
    strategy = heads.strategy_of(2)
    with strategy.scope():
        assert_near(ask(trained(), inputs[:4]), wanted[0], 1e-12)

    @tf.function
    def on_replicas():
        def of_replica():
            replica = tf.distribute.get_replica_context()
            i = replica.replica_id_in_sync_group
            return ask(trained(), tf.constant(inputs.reshape(2, 4, -1))[i])

        return strategy.run(of_replica)

    found = on_replicas()
    for values, *each in zip(
        tf.nest.flatten(found), *map(tf.nest.flatten, wanted), strict=True
    ):
        assert_near(strategy.experimental_local_results(values), each, 1e-12)


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
