"""Files, checkpoints and answers of heads over replicas."""

import functools

import keras
import pytest
import tensorflow as tf

from tests.support import replicated_heads as heads
from tests.support import replicated_tails as tails
from tests.support.training import assert_same
from tf_hsm import distribute

RULE = "lazy_adam"
KINDS = ["tree", "tails"]
each_kind = pytest.mark.parametrize("kind", KINDS)
WIDTHS = {"tree": heads.WIDTH, "tails": tails.WIDTH}


def make(kind, count=None, seed=1):
    """A head over replicas; None: on one device."""
    if kind == "tree":
        return heads.make_head("huffman", RULE, count, seed=seed)
    return tails.make_head("three", RULE, count, seed=seed)


@functools.cache
def trained(kind):
    """A head over 2 replicas after a few steps."""
    head = make(kind, 2, seed=0)
    if kind == "tree":
        heads.train(head, "huffman", 2, steps=3)
    else:
        tails.train(head, 2, steps=3)
    return head


def checkpoint_of(head, count):
    """A checkpoint, with a model's optimizer if that has projections."""
    if not hasattr(head, "projections"):
        return distribute.checkpoint(head)
    optimizer = tails.make_optimizer(head, count)
    return distribute.checkpoint(head, optimizer=optimizer)


def assert_same_head(head, kind):
    """Asserts that a head has the state of the trained one in all copies."""
    assert_same(heads.state(head), heads.state(trained(kind)))
    heads.assert_copies_agree(head)


@pytest.mark.parametrize(
    "kind, count", [("tree", 1), ("tree", 8), ("tails", None), ("tails", 8)]
)
def test_checkpoints(kind, count, tmp_path):
    """A restore elsewhere has the same bits, and so has a restore back."""
    path = checkpoint_of(trained(kind), 2).save(tmp_path / "two")
    head = make(kind, count)
    for target, number in ((head, count), (make(kind, 2), 2)):
        restored = checkpoint_of(target, number)
        restored.restore(path).assert_consumed()
        assert_same_head(target, kind)
        path = restored.save(tmp_path / "others")


def model_of(head, kind):
    return keras.Sequential([keras.Input([WIDTHS[kind]]), head])


@each_kind
@pytest.mark.parametrize("count", [None, 4])
def test_files_of_weights(count, kind, tmp_path):
    """On one device without a plan too."""
    path = tmp_path / "a.weights.h5"
    model_of(trained(kind), kind).save_weights(path)
    head = make(kind, count)
    model_of(head, kind).load_weights(path)
    assert_same_head(head, kind)


@each_kind
@pytest.mark.parametrize("count", [None, 4])
def test_files_of_models(count, kind, tmp_path):
    """The head takes the replicas that there are; without a strategy, one."""
    path = tmp_path / "a.keras"
    model_of(trained(kind), kind).save(path)
    strategy = (
        heads.strategy_of(count) if count else tf.distribute.get_strategy()
    )
    with strategy.scope():
        loaded = keras.models.load_model(path)
    (head,) = loaded.layers
    if kind == "tree":
        assert len(head.plan.shards) == (count or 1)
    else:
        assert head.devices == "replicas"
        devices = {kernel.value.device for kernel in head.tail_kernels}
        assert len(devices) == min(3, count or 1)
    assert_same_head(head, kind)


def test_copies_of_weights():
    head, several = make("tree"), make("tree", 4)
    distribute.copy_weights(trained("tree"), head)
    assert_same(heads.state(head), heads.state(trained("tree")))
    distribute.copy_weights(head, several)
    assert_same_head(several, "tree")


QUESTIONS = [
    lambda head, x: head.log_probs(x),
    lambda head, x: head.log_prob(tf.tile([[3, 59, 0]], [4, 1]), x),
    lambda head, x: tuple(head.top_k(x, 7)),
    lambda head, x: head.predict_class(x),
    lambda head, x: head.sample(x, 5, seed=3, top_k=1),
]


@each_kind
def test_answers(kind, tmp_path):
    one, questions = make(kind), QUESTIONS
    if kind == "tree":
        distribute.copy_weights(trained(kind), one)
    else:
        questions = [*questions, lambda head, x: head.sample(x, 5, seed=3)]
        path = distribute.checkpoint(trained(kind)).save(tmp_path / "saved")
        distribute.checkpoint(one).restore(path)
    heads.assert_answers(questions, trained(kind), one, WIDTHS[kind])


@pytest.mark.parametrize("number", [0, -1, 1.5])
def test_checkpoints_to_keep(number, tmp_path):
    saved = tf.train.Checkpoint(step=tf.Variable(0))
    with pytest.raises(ValueError, match="max_to_keep"):
        distribute.save(
            saved, tmp_path / "a", heads.strategy_of(2), max_to_keep=number
        )
    assert not [*tmp_path.iterdir()]
