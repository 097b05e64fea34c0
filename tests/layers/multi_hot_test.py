"""Multi-hot matrices are refused wherever lists of classes are read."""

import keras
import numpy as np
import pytest
import tensorflow as tf

import tf_hsm
from tests.support import heads_by_name
from tests.support.heads_by_name import BATCH, NUM_CLASSES, TREE, WIDTH
from tests.support.training import assert_same, layer_step
from tf_hsm.metrics import PrecisionAtK

REFUSED = pytest.raises(
    tf.errors.InvalidArgumentError, match="are a multi-hot matrix"
)
LISTS = np.random.default_rng(5).permuted(
    np.tile(np.arange(NUM_CLASSES), [BATCH, 1]), axis=1
)[:, :2]
HOT = np.zeros([BATCH, NUM_CLASSES], np.int64)
np.put_along_axis(HOT, LISTS, 1, 1)
X = heads_by_name.inputs("LabelTree").numpy()


def several(name, **options):
    if name != "LabelTree":
        options["several_labels"] = True
    return heads_by_name.built(name, **options)


@pytest.mark.parametrize("name", heads_by_name.NAMES)
def test_heads(name):
    """Before a step in place too; a list of the same labels is taken."""
    options = {} if name == "SampledSoftmax" else {"optimizer": "sgd"}
    head, inputs = several(name, **options), heads_by_name.inputs(name)
    before = [v.numpy() for v in head.variables]
    for labels in (HOT, HOT.astype(np.uint8), tf.RaggedTensor.from_tensor(HOT)):
        with REFUSED:
            layer_step(head, inputs, labels)
    assert_same(head.variables, before)
    losses = head(inputs, tf_hsm.label_lists(HOT))
    np.testing.assert_allclose(losses, head(inputs, LISTS), rtol=1e-5)


def model_of(name, is_endpoint=False):
    head = several(name)
    inputs = keras.Input([WIDTH])
    if is_endpoint:
        labels = keras.Input([NUM_CLASSES], dtype="int32")
        model = keras.Model([inputs, labels], head(inputs, labels))
        model.compile("sgd")
        return model
    model = keras.Model(inputs, head(inputs))
    model.compile("sgd", head.loss)
    return model


def generated():
    """Data whose last dimensions are not known."""
    specs = tf.TensorSpec([None, WIDTH]), tf.TensorSpec([None, None], tf.int64)
    return tf.data.Dataset.from_generator(
        lambda: iter([(X, HOT)]), output_signature=specs
    )


def step_of_an_op():
    head = several("LabelTree")
    optimizer = tf_hsm.optimizers.SGD(0.1)
    optimizer.build([head.kernel, head.bias])
    tf_hsm.label_tree_train_step(
        head.kernel, head.bias, HOT, X, TREE, optimizer
    )


# A number for each row of the tree.
WIDE = np.zeros([BATCH, TREE.num_rows], int)
WIDE[:, : NUM_CLASSES - 1] = HOT[:, 1:]
CALLS = {
    **{
        f"{entry} of {name}": lambda entry=entry, name=name: getattr(
            model_of(name), entry
        )(X, HOT, verbose=0)
        for entry in ("fit", "evaluate")
        for name in ("HierarchicalSoftmax", "LabelTree")
    },
    "generator": lambda: model_of("LabelTree").fit(generated(), verbose=0),
    "endpoint": lambda: model_of("LabelTree", True).fit([X, HOT], verbose=0),
    "devices": lambda: several("HierarchicalSoftmax", devices=["CPU:0"] * 2)(
        X, HOT
    ),
    "metric": lambda: PrecisionAtK(
        several("HierarchicalSoftmax"), 2
    ).update_state(HOT, X),
    "nodes": lambda: several("HierarchicalSoftmax", node_labels=True)(X, HOT),
    "all nodes": lambda: several("HierarchicalSoftmax", node_labels=True)(
        X, WIDE
    ),
    "op": lambda: tf_hsm.label_tree_loss(
        several("LabelTree").kernel, None, HOT, X, TREE
    ),
    "step": step_of_an_op,
    "counts": lambda: tf_hsm.LabelCounts.of(TREE, HOT),
}


@pytest.mark.parametrize("name", CALLS)
def test_calls(name):
    with REFUSED:
        CALLS[name]()


@pytest.mark.parametrize("name", heads_by_name.NAMES)
def test_allowed_classes(name):
    """A mask of integers in the place of booleans, or one for each input."""
    head, inputs = heads_by_name.built(name), heads_by_name.inputs(name)
    for allowed in (HOT, HOT[0], HOT[0].tolist()):
        with REFUSED:
            head.top_k(inputs, 2, allowed=allowed)
    of_mask = head.top_k(inputs, 2, allowed=HOT[0].astype(bool))
    of_lists = head.top_k(inputs, 2, allowed=tf_hsm.label_lists(HOT[0]))
    np.testing.assert_array_equal(of_mask.classes, of_lists.classes)


def test_bags():
    """A binary bag of words, which is no list of ids either."""
    head = heads_by_name.built("EmbeddingSoftmax", padding_id=-1)
    bags = np.eye(20, dtype=int)[:BATCH] + np.eye(20, k=3, dtype=int)[:BATCH]
    with pytest.raises(
        tf.errors.InvalidArgumentError, match="bags of ids must be lists"
    ):
        head(bags)
    vectors = head(tf_hsm.label_lists(bags))
    pairs = np.stack([np.arange(BATCH), np.arange(BATCH) + 3], 1)
    np.testing.assert_array_equal(vectors, head(pairs))


def test_lists_that_look_alike():
    """All classes of a small tree; padded to N; N labels that are 0 or 1."""
    head = tf_hsm.layers.HierarchicalSoftmax(
        tf_hsm.Tree.two_level(4), several_labels=True
    )
    x = np.random.default_rng(0).normal(size=[2, 3]).astype("f4")
    head(x)
    log_probs = head.log_probs(x).numpy()
    for labels, expected in (
        ([[0, 1, 2, 3], [3, 2, 1, 0]], log_probs.mean(1)),
        ([[0, 1, -1, -1], [1, 0, -1, -1]], log_probs[:, :2].mean(1)),
        ([[0, 1], [1, 1]], [log_probs[0, :2].mean(), log_probs[1, 1]]),
    ):
        np.testing.assert_allclose(
            head(x, np.array(labels)), -np.array(expected), rtol=1e-5
        )
    head.objective.ignore_class = 0
    found = head(x, np.array([[1, 0, 0, 0], [0, 0, 0, 0]]))
    np.testing.assert_allclose(found, [-log_probs[0, 1], 0], rtol=1e-5)
