"""A number of classes in the place of the tree, as other losses take it."""

import inspect

import numpy as np
import pytest
import tensorflow as tf

import tf_hsm
from tf_hsm import baselines, layers, optimizers

W, B = tf.Variable(tf.zeros([110, 8])), tf.Variable(tf.zeros([110]))
Y, X = tf.constant([3, 4]), tf.zeros([2, 8])
GIVEN = {
    "weights": W,
    "biases": B,
    "labels": Y,
    "inputs": X,
    "classes": Y[:, None],
    "k": 2,
    "num_samples": 1,
    "optimizer": optimizers.SGD(0.1),
    "vectors": tf.Variable(tf.zeros([5, 8])),
    "indices": Y,
}
GIVEN["optimizer"].build([W, B, GIVEN["vectors"]])
FUNCTIONS = {
    name: getattr(module, name)
    for module in (tf_hsm, baselines)
    for name in dir(module)
    if name.startswith(("hierarchical_softmax_", "label_tree_"))
    or name in ("gather_loss", "embedding_lookup_loss", "map_fn_loss")
}


def arguments_of(name):
    names = inspect.signature(FUNCTIONS[name]).parameters
    given = {k: v for k, v in GIVEN.items() if k in names}
    if name.startswith("label_tree_") and "labels" in given:
        given["labels"] = Y[:, None]
    return given


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions(name):
    given, function = arguments_of(name), FUNCTIONS[name]
    right = tf_hsm.Tree.two_level(100)
    others = [(100, "int; tf_hsm.Tree.two_level"), ("tree", "str"), (None, "N")]
    options = [{}, {"allowed": [1, 2]}, {"allowed": [1], "renormalize": True}]
    known = inspect.signature(function).parameters.keys()
    for option in (o for o in options if o.keys() <= known):
        for wrong, match in others:
            with pytest.raises(
                TypeError, match=f"tree must be a tf_hsm.Tree, but is {match}"
            ):
                function(**given, tree=wrong, **option)
    function(**given, tree=right)


@pytest.mark.parametrize(
    "make",
    [
        layers.HierarchicalSoftmax,
        layers.LabelTree,
        lambda n: layers.EmbeddingSoftmax(n, num_embeddings=3, width=2),
        lambda n: tf_hsm.TreeHead(W, B, n),
        lambda n: tf_hsm.LabelCounts.of(n, [[1]]),
        lambda n: tf_hsm.LabelCounts.expected(n, [1], examples=2),
        lambda n: tf_hsm.distribute.plan(n, 2),
    ],
)
def test_other_things(make):
    for wrong in (100, np.int64(100)):
        with pytest.raises(TypeError, match=r"but is int.*two_level\(100\)"):
            make(wrong)
