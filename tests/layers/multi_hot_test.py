"""Multi-hot matrices are refused wherever lists of classes are read."""

import keras
import numpy as np
import pytest
import tensorflow as tf

import tf_hsm
from tests.support import heads_by_name
from tests.support.heads_by_name import BATCH, NUM_CLASSES, TREE, WIDTH
from tests.support.training import layer_step
from tf_hsm.metrics import PrecisionAtK

REFUSED = pytest.raises(
    tf.errors.InvalidArgumentError, match="are a multi-hot matrix"
)
LISTS = np.random.default_rng(5).permuted(
    np.tile(np.arange(NUM_CLASSES), [BATCH, 1]), axis=1
)[:, :2]
HOT = np.zeros([BATCH, NUM_CLASSES], np.int64)
np.put_along_axis(HOT, LISTS, 1, 1)
OPTIONS = {
    "in place": {"optimizer": "sgd"},
    "by the model": {},
    "on devices": {"devices": ["CPU:0"] * 2},
}


def several(name, **options):
    if name != "LabelTree":
        options["several_labels"] = True
    return heads_by_name.built(name, **options)


def model_of(head, **compiling):
    embeds = isinstance(head, tf_hsm.layers.EmbeddingSoftmax)
    inputs = keras.Input([], dtype="int64") if embeds else keras.Input([WIDTH])
    model = keras.Model(inputs, head(inputs))
    model.compile("sgd", head.loss, **compiling)
    return model


@pytest.mark.parametrize("name", heads_by_name.NAMES)
def test_heads(name):
    """Before a step in place too; a list of the same labels is taken."""
    head = several(
        name, **({} if name == "SampledSoftmax" else OPTIONS["in place"])
    )
    inputs = heads_by_name.inputs(name)
    before = [v.numpy() for v in head.variables]
    for labels in (HOT, HOT.astype(np.uint8), tf.RaggedTensor.from_tensor(HOT)):
        with REFUSED:
            layer_step(head, inputs, labels)
    for variable, old in zip(head.variables, before, strict=True):
        np.testing.assert_array_equal(variable, old)
    losses = head(inputs, tf_hsm.label_lists(HOT))
    np.testing.assert_allclose(losses, head(inputs, LISTS), rtol=1e-5)


@pytest.mark.parametrize("entry", ["fit", "evaluate", "from a generator"])
@pytest.mark.parametrize("name", ["HierarchicalSoftmax", "LabelTree"])
def test_entries_of_a_model(name, entry):
    """In graphs, with a last dimension that is known or not."""
    model = model_of(several(name))
    x = heads_by_name.inputs(name).numpy()
    data = {"x": x, "y": HOT}
    if entry == "from a generator":
        shapes = [None, WIDTH], [None, None]
        data = {
            "x": tf.data.Dataset.from_generator(
                lambda: iter([(x, HOT)]),
                output_signature=(
                    tf.TensorSpec(shapes[0], tf.float32),
                    tf.TensorSpec(shapes[1], tf.int64),
                ),
            )
        }
    with REFUSED:
        (model.evaluate if entry == "evaluate" else model.fit)(
            **data, verbose=0
        )


def test_several_devices():
    head = several("HierarchicalSoftmax", **OPTIONS["on devices"])
    with REFUSED:
        head(heads_by_name.inputs("HierarchicalSoftmax"), HOT)


def test_endpoint():
    """A model whose input the matrix is."""
    head = several("LabelTree")
    inputs = [keras.Input([WIDTH]), keras.Input([NUM_CLASSES], dtype="int32")]
    model = keras.Model(inputs, head(*inputs))
    model.compile("sgd")
    with REFUSED:
        model.fit([heads_by_name.inputs("LabelTree"), HOT], verbose=0)


def test_metric():
    """By itself, without a loss that reads the labels."""
    head = several("HierarchicalSoftmax")
    hidden = heads_by_name.inputs("HierarchicalSoftmax")
    with REFUSED:
        PrecisionAtK(head, 2).update_state(HOT, hidden)


def test_labels_at_nodes():
    """A number for each class, or for each row of the tree."""
    head = several("HierarchicalSoftmax", node_labels=True)
    inputs = heads_by_name.inputs("HierarchicalSoftmax")
    wide = np.zeros([BATCH, TREE.num_rows], int)
    wide[:, : NUM_CLASSES - 1] = HOT[:, 1:]
    for labels in (HOT, wide):
        with REFUSED:
            head(inputs, labels)


def test_ops():
    head = several("LabelTree")
    arguments = (head.kernel, head.bias, HOT)
    inputs = heads_by_name.inputs("LabelTree")
    with REFUSED:
        tf_hsm.label_tree_loss(*arguments, inputs, TREE)
    optimizer = tf_hsm.optimizers.SGD(0.1)
    optimizer.build([head.kernel, head.bias])
    with REFUSED:
        tf_hsm.label_tree_train_step(*arguments, inputs, TREE, optimizer)
    with REFUSED:
        tf_hsm.LabelCounts.of(TREE, HOT)


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
    tree = tf_hsm.Tree.two_level(4)
    head = tf_hsm.layers.HierarchicalSoftmax(tree, several_labels=True)
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
    padded = tf_hsm.layers.HierarchicalSoftmax(
        tree, several_labels=True, ignore_class=0
    )
    padded(x)
    padded.set_weights(head.get_weights())
    found = padded(x, np.array([[1, 0, 0, 0], [0, 0, 0, 0]]))
    np.testing.assert_allclose(found, [-log_probs[0, 1], 0], rtol=1e-5)
