"""Heads whose labels are rows of the tree, and answers among some classes."""

import keras
import numpy as np
import tensorflow as tf

import tf_hsm
from tests.support import models
from tf_hsm.metrics import TopKAccuracy


def make_rows(labels, seed=0):
    """A random row on each label's path: the leaf, or a node above it."""
    rng = np.random.default_rng(seed)
    return np.vectorize(lambda c: rng.choice(models.TREE.path(c)))(labels)


def test_evaluate():
    """Masked and ignored labels do not count; an inner node is hit below."""
    tokens, labels = models.make_data()
    rows = make_rows(labels)
    rows[::5, 0] = -7
    model = models.compile_form(
        node_labels=True,
        ignore_class=-7,
        compiling=lambda head: {"weighted_metrics": [TopKAccuracy(head, 3)]},
    )
    logs = model.evaluate(
        tokens, rows, batch_size=8, verbose=0, return_dict=True
    )
    head = models.head_of(model)
    hidden = models.hidden_model(model).predict(tokens, verbose=0)
    counts = (tokens != 0) & (rows != -7)
    of_nodes = head.log_probs(hidden, nodes=True).numpy()[counts]
    losses = -np.take_along_axis(of_nodes, rows[counts][:, np.newaxis], -1)
    np.testing.assert_allclose(
        logs["perplexity"], np.exp(losses.mean()), rtol=1e-5
    )
    best = head.top_k(hidden, 3).classes.numpy()
    hits = [
        any(row in models.TREE.path(c) for c in classes)
        for row, classes in zip(rows[counts], best[counts], strict=True)
    ]
    np.testing.assert_allclose(logs["top_3_accuracy"], np.mean(hits), rtol=1e-6)


def test_regularizers_take_the_rows_above_a_node():
    """Those of the groups on its path, and no others."""
    head = models.make_head(
        node_labels=True,
        use_bias=False,
        kernel_regularizer=lambda rows: tf.cast(tf.shape(rows)[0], tf.float32),
    )
    x = np.zeros([3, models.WIDTH], "f4")
    rows = np.array(
        [0, models.TREE.class_rows[7], models.TREE.group_parents[-1]]
    )
    head(x, rows)
    groups = set()
    for row in rows:
        while row >= 0:
            groups.add(models.TREE.row_groups[row])
            row = models.TREE.group_parents[models.TREE.row_groups[row]]
    touched = np.isin(models.TREE.row_groups, list(groups)).sum()
    assert float(head.losses[0]) == touched


def test_masks_are_passed_on():
    rng = np.random.default_rng(0)
    x = rng.normal(size=[3, models.STEPS, models.WIDTH]).astype("f4")
    classes = rng.integers(models.NUM_CLASSES, size=[3, models.STEPS, 4])
    rows = rng.integers(models.TREE.num_rows, size=[3, models.STEPS, 4])
    allowed = rng.integers(-1, models.NUM_CLASSES, size=[3, models.STEPS, 9])
    head = models.make_head()
    head.build(x.shape)
    own = (head.kernel, head.bias)
    options = {"allowed": allowed, "renormalize": True}
    for mine, theirs in zip(
        head.top_k(x, 3, **options),
        tf_hsm.hierarchical_softmax_top_k(*own, x, models.TREE, 3, **options),
        strict=True,
    ):
        np.testing.assert_array_equal(mine, theirs)
    np.testing.assert_array_equal(
        head.log_prob(classes, x, **options),
        tf_hsm.hierarchical_softmax_log_prob(
            *own, classes, x, models.TREE, **options
        ),
    )
    np.testing.assert_array_equal(
        head.log_prob(rows, x, nodes=True),
        tf_hsm.hierarchical_softmax_log_prob(
            *own, rows, x, models.TREE, nodes=True
        ),
    )
    np.testing.assert_array_equal(
        head.sample(x, 7, seed=3, allowed=allowed),
        tf_hsm.hierarchical_softmax_sample(
            *own, x, models.TREE, 7, seed=3, allowed=allowed
        ),
    )


def test_masks_in_a_functional_model(tmp_path):
    """What is allowed is an input of the model, or the same for all inputs."""
    inputs = keras.Input([models.WIDTH])
    allowed = keras.Input([None], dtype="int64")
    shared = models.TREE.classes_below(int(models.TREE.group_parents[1]))
    head = models.make_head()
    answers = {
        "own": head.top_k(inputs, 3, allowed=allowed, renormalize=True).classes,
        "shared": head.top_k(inputs, 3, allowed=shared).classes,
        "drawn": head.sample(inputs, 4, seed=1, allowed=shared),
    }
    model = keras.Model([inputs, allowed], answers)
    rng = np.random.default_rng(0)
    x = rng.normal(size=[6, models.WIDTH]).astype("f4")
    lists = rng.integers(-1, models.NUM_CLASSES, size=[6, 5])
    predicted = model([x, lists])
    expected = head.top_k(x, 3, allowed=lists).classes
    np.testing.assert_array_equal(predicted["own"], expected)
    for name in ("shared", "drawn"):
        assert set(np.ravel(predicted[name])) <= {*shared, -1}
    model.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    model.export(tmp_path / "exported", verbose=False)
    exported = tf.saved_model.load(tmp_path / "exported")
    served = exported.serve([tf.constant(x), tf.constant(lists)])
    for name, value in predicted.items():
        np.testing.assert_array_equal(loaded([x, lists])[name], value)
        np.testing.assert_array_equal(served[name], value)
