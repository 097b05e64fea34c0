"""Files, checkpoints and answers of heads over replicas."""

import functools

import keras
import numpy as np
import pytest
import tensorflow as tf

from tests.support import replicated_heads as heads
from tests.support.training import assert_near, assert_same
from tf_hsm import distribute
from tf_hsm.runtime.replicas import copies_of


@functools.cache
def trained():
    """A head over 2 replicas after a few steps."""
    head = heads.make_head("huffman", "lazy_adam", 2)
    strategy = heads.strategy_of(2)
    run = tf.function(lambda *x: strategy.run(heads.step_of(head), x))
    for batch, _ in zip(heads.batches("huffman"), range(3), strict=False):
        run(*(heads.split(strategy, values) for values in batch))
    return head


def assert_copies_agree(head):
    for variable in (head.kernel, *head.optimizer.slots(head.kernel)):
        first, *others = copies_of(variable)
        for other in others:
            assert_same(other.numpy(), first.numpy())


def other_head(count):
    """A head with other weights: over replicas; None: on one device."""
    return heads.make_head("huffman", "lazy_adam", count, seed=1)


@pytest.mark.parametrize("count", [1, 4, 8])
def test_checkpoints(count, tmp_path):
    """What 2 replicas saved, others restore with the same bits, and back."""
    wanted = heads.state(trained())
    path = distribute.checkpoint(trained()).save(tmp_path / "two")
    head = other_head(count)
    distribute.checkpoint(head).restore(path).assert_consumed()
    assert_same(heads.state(head), wanted)
    assert_copies_agree(head)
    path = distribute.checkpoint(head).save(tmp_path / "others")
    back = other_head(2)
    distribute.checkpoint(back).restore(path).assert_consumed()
    assert_same(heads.state(back), wanted)
    assert_copies_agree(back)


def model_of(head):
    return keras.Sequential([keras.Input([heads.WIDTH]), head])


@pytest.mark.parametrize("count", [None, 4])
def test_files_of_weights(count, tmp_path):
    """On one device without a plan too."""
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
    assert len(head.plan.shards) == (count or 1)
    assert_same(heads.state(head), heads.state(trained()))
    assert_copies_agree(head)


def test_copies_of_weights():
    head = heads.make_head("huffman", "lazy_adam")
    distribute.copy_weights(trained(), head)
    assert_same(heads.state(head), heads.state(trained()))
    several = other_head(4)
    distribute.copy_weights(head, several)
    assert_same(heads.state(several), heads.state(trained()))
    assert_copies_agree(several)


QUESTIONS = {
    "log_probs": lambda head, x: head.log_probs(x),
    "log_prob": lambda head, x: head.log_prob(tf.tile([[3, 59, 0]], [4, 1]), x),
    "top_k": lambda head, x: tuple(head.top_k(x, 7)),
    "best": lambda head, x: head.predict_class(x),
    "sample": lambda head, x: head.sample(x, 5, seed=3, top_k=1),
}


@pytest.mark.parametrize("question", QUESTIONS)
def test_answers(question):
    """From outside the strategy, its scope, and a replica: as on one device."""
    one = heads.make_head("huffman", "lazy_adam")
    distribute.copy_weights(trained(), one)
    inputs = np.random.default_rng(0).normal(size=(8, heads.WIDTH))
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
