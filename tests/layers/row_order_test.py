"""Weights are not loaded into a head whose rows stand for other classes."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from tests.support.training import assert_same
from tf_hsm import Tree, distribute, layers

COUNTS = 1 + np.arange(40) ** 2
TREES = (
    Tree.huffman(COUNTS, branching=2),
    Tree.huffman(COUNTS[::-1], branching=2),
)


def embedding(tree):
    return layers.EmbeddingSoftmax(tree, num_embeddings=9, width=3)


def adaptive(counts):
    return layers.AdaptiveSoftmax(
        40, cutoffs=[5, 20], div_value=2, counts=counts
    )


def planned(devices):
    """Heads of one tree, which is cut in one place and the other."""
    tree = Tree.two_level(64)
    plan = distribute.plan(tree, ["CPU:0"] * 2)
    first = [0, *devices, plan.layout.num_units]
    plan = distribute.Plan(
        tree,
        plan.devices,
        unit_rows=plan.layout.unit_rows,
        unit_loads=plan.layout.unit_loads,
        first_units=first,
    )
    return layers.HierarchicalSoftmax(tree, plan=plan)


HEADS = {
    "hierarchical": (layers.HierarchicalSoftmax, TREES),
    "pinned": (layers.HierarchicalSoftmax, [t.pin() for t in TREES]),
    "in_place": (
        lambda tree: layers.HierarchicalSoftmax(tree, optimizer="adagrad"),
        TREES,
    ),
    "label_tree": (layers.LabelTree, TREES),
    "embedding": (embedding, TREES),
    "adaptive": (adaptive, (COUNTS, COUNTS[::-1])),
    "adaptive_in_order": (adaptive, (None, COUNTS)),
}


def model_of(head):
    embeds = isinstance(head, layers.EmbeddingSoftmax)
    inputs = keras.Input([], dtype="int64") if embeds else keras.Input([12])
    return keras.Model(inputs, head(inputs))


@pytest.mark.parametrize("name", HEADS)
def test_files(name, tmp_path):
    """A file of weights, and a checkpoint."""
    make, (its, another) = HEADS[name]
    model, same, again, other = (
        model_of(make(x)) for x in (its, its, its, another)
    )
    assert [w.shape for w in model.weights] == [w.shape for w in other.weights]
    before = other.get_weights()
    path = tmp_path / "model.weights.h5"
    model.save_weights(path)
    same.load_weights(path)
    assert_same(model.variables, same.variables)
    with pytest.raises(ValueError, match="of a head with another tree"):
        other.load_weights(path)
    with pytest.warns(UserWarning, match="of a head with another tree"):
        other.load_weights(path, skip_mismatch=True)
    path = tf.train.Checkpoint(model=model).save(tmp_path / "saved")
    tf.train.Checkpoint(model=again).restore(path).assert_consumed()
    assert_same(model.variables, again.variables)
    with pytest.raises(ValueError, match="of a head with another tree, and"):
        tf.train.Checkpoint(model=other).restore(path)
    assert_same(other.get_weights(), before)


def test_checkpoints_of_other_cuts(tmp_path):
    """A file of weights is for each cut, TensorFlow's checkpoint for one."""
    model, same, other = (model_of(planned([cut])) for cut in (3, 3, 5))
    path = tf.train.Checkpoint(model=model).save(tmp_path / "saved")
    tf.train.Checkpoint(model=same).restore(path).assert_consumed()
    assert_same(model.variables, same.variables)
    with pytest.raises(ValueError, match="or whose devices had other parts"):
        tf.train.Checkpoint(model=other).restore(path)
    model.save_weights(tmp_path / "model.weights.h5")
    other.load_weights(tmp_path / "model.weights.h5")


def test_files_that_do_not_say():
    """Those of the versions before have the variables alone."""
    model, other = (model_of(HEADS["hierarchical"][0](t)) for t in TREES)
    store = {}
    model.layers[-1].save_own_variables(store)
    del store["row_order"]
    other.layers[-1].load_own_variables(store)
    assert_same(model.variables, other.variables)


@pytest.mark.parametrize("cutoffs", [[20], 1])
def test_checkpoints_before_build(cutoffs, tmp_path):
    """They are refused at once or, if cutoffs are still to be chosen, later."""
    saved, head, other = (
        layers.AdaptiveSoftmax(40, cutoffs=cutoffs, counts=counts)
        for counts in (COUNTS, COUNTS, COUNTS[::-1])
    )
    model_of(saved)
    path = tf.train.Checkpoint(head=saved).save(tmp_path / "saved")
    tf.train.Checkpoint(head=head).restore(path).expect_partial()
    model_of(head)
    assert_same(saved.variables, head.variables)
    checkpoint = tf.train.Checkpoint(head=other)
    if cutoffs == 1:
        checkpoint.restore(path).expect_partial()
    else:
        with pytest.raises(ValueError, match="of a head with another tree"):
            checkpoint.restore(path)
    for _ in range(2):
        with pytest.raises(ValueError, match="of a head with another tree"):
            model_of(other)


def test_checkpoints_that_do_not_say(tmp_path):
    """TensorFlow calls those of the versions before partial."""
    saved, head = (layers.HierarchicalSoftmax(tree) for tree in TREES)
    model_of(saved), model_of(head)
    one = tf.train.Checkpoint(kernel=saved.kernel.value, bias=saved.bias.value)
    path = tf.train.Checkpoint(head=one).save(tmp_path / "saved")
    tf.train.Checkpoint(head=head).restore(path).expect_partial()
    np.testing.assert_array_equal(head.kernel, saved.kernel)
