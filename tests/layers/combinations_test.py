"""Options of heads together: how they train, what they answer, growing."""

import itertools

import keras
import numpy as np
import pytest
import tensorflow as tf

import tf_hsm
from tests.support.models import NUM_CLASSES, TREE, make_head
from tests.support.update_rules import OPTIMIZERS
from tf_hsm.metrics import Perplexity, PrecisionAtK, TopKAccuracy

WIDTH, EXAMPLES = 5, 21
OPTIONS = {
    "several": {"several_labels": True},
    "several_nodes": {"several_labels": True, "node_labels": True},
    "several_smoothed": {"several_labels": True, "label_smoothing": 0.3},
    "nodes_smoothed": {"node_labels": True, "label_smoothing": 0.3},
    "several_to_prior": {
        "several_labels": True,
        "label_smoothing": 0.3,
        "smoothing_prior": np.arange(NUM_CLASSES) % 5,
    },
    "all": {
        "several_labels": True,
        "node_labels": True,
        "label_smoothing": 0.3,
        "ignore_class": 3,
    },
}
# In a graph these are trained when they have grown, the others before that.
TRACED_WHEN_GROWN = {"several_nodes", "nodes_smoothed", "several_to_prior"}


def make_data(options, seed=0):
    """Inputs; labels or rows, one or several, of which some are none."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=[EXAMPLES, WIDTH]).astype("f4")
    labels = rng.integers(NUM_CLASSES, size=[EXAMPLES, 4])
    if "node_labels" in options:
        labels = np.vectorize(lambda c: rng.choice(TREE.path(c)))(labels)
    if "several_labels" not in options:
        return x, labels[:, 0]
    count = rng.integers(5, size=[EXAMPLES, 1])
    assert (count == 0).any() and (count == 4).any()
    return x, np.where(np.arange(4) < count, labels, -1)


def counted(head, labels):
    """Which labels count, `[B, M]` bool."""
    labels = labels if head.several_labels else labels[:, np.newaxis]
    return (labels >= 0) & (labels != head.ignore_class)


def expected_losses(head, x, labels, smoothing):
    """By the definition, from the log-probabilities of all nodes.

    The targets of each group on a label's path are smoothed.
    """
    shares = 1 / np.diff(head.tree.group_offsets)[head.tree.row_groups]
    if head.smoothing_prior is not None:
        shares = head.tree.row_shares(head.smoothing_prior)
    of_nodes = head.log_probs(x, nodes=True).numpy().astype(float)
    tree = head.tree
    within = of_nodes.copy()
    for group, parent in enumerate(tree.group_parents):
        rows = slice(*tree.group_offsets[group : group + 2])
        if parent >= 0:
            within[:, rows] -= of_nodes[:, [parent]]

    def loss(i, row):
        total = 0
        while row >= 0:
            group = tree.row_groups[row]
            rows = slice(*tree.group_offsets[group : group + 2])
            total -= (1 - smoothing) * within[i, row]
            total -= smoothing * shares[rows] @ within[i, rows]
            row = tree.group_parents[group]
        return total

    rows = labels if head.node_labels else tree.class_rows[labels]
    rows = rows if head.several_labels else rows[:, np.newaxis]
    counts = counted(head, labels)
    return np.array(
        [
            np.mean([loss(i, row) for row in its[kept]]) if kept.any() else 0
            for i, (its, kept) in enumerate(zip(rows, counts, strict=True))
        ]
    )


@pytest.mark.parametrize("name", OPTIONS)
def test_losses(name):
    """They are smoothed, unless they are plain; masked inputs have none."""
    x, labels = make_data(OPTIONS[name])
    head = make_head(**OPTIONS[name])
    mask = np.arange(EXAMPLES) % 4 != 1
    losses = head(x, labels, inputs_mask=mask)
    expected = expected_losses(head, x, labels, head.label_smoothing) * mask
    np.testing.assert_allclose(losses, expected, rtol=1e-4, atol=1e-6)
    kept = mask & counted(head, labels).any(1)
    np.testing.assert_allclose(head.losses[0], expected[kept].mean(), rtol=1e-4)
    plain = head._find_losses(labels, x, inputs_mask=mask, plain=True).losses
    expected = expected_losses(head, x, labels, 0) * mask
    np.testing.assert_allclose(plain, expected, rtol=1e-4, atol=1e-6)


def make_model(head, **compiling):
    model = keras.Sequential([keras.Input([WIDTH]), head])
    model.compile(OPTIMIZERS["adagrad"](), loss=head.loss, **compiling)
    return model


@pytest.mark.parametrize("name", OPTIONS)
def test_in_place_as_by_gradients(name, tmp_path):
    """And a model that was saved goes on in the same way."""
    x, labels = make_data(OPTIONS[name])
    eager = name in TRACED_WHEN_GROWN
    ends = []
    for own in (True, False):
        keras.utils.set_random_seed(0)
        optimizer = OPTIMIZERS["adagrad"]() if own else None
        head = make_head(optimizer=optimizer, **OPTIONS[name])
        model = make_model(head, run_eagerly=eager or not own)
        for epoch in range(2):
            model.fit(x, labels, batch_size=8, shuffle=False, verbose=0)
            if own and epoch == 0:
                model.save(tmp_path / "model.keras")
                model = keras.models.load_model(tmp_path / "model.keras")
                model.run_eagerly = eager
        head = model.layers[-1]
        for option, value in OPTIONS[name].items():
            np.testing.assert_array_equal(getattr(head, option), value)
        ends.append([head.kernel.numpy(), head.bias.numpy()])
    for one, other in zip(*ends, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", OPTIONS)
def test_answers(name):
    """Options of training change no answer, with masks neither."""
    x, labels = make_data(OPTIONS[name])
    head, plain = make_head(**OPTIONS[name]), make_head()
    head(x, labels)
    plain.build([None, WIDTH])
    plain.set_weights(head.get_weights())
    lists = np.random.default_rng(1).integers(-1, 30, size=[EXAMPLES, 7])
    masks = {"allowed": lists, "renormalize": True}
    for options in ({}, masks, {"allowed": [3, 7, 29]}):
        for one, other in zip(
            head.top_k(x, 4, **options),
            plain.top_k(x, 4, **options),
            strict=True,
        ):
            np.testing.assert_array_equal(one, other)
    np.testing.assert_array_equal(head.predict_class(x), plain.predict_class(x))
    np.testing.assert_array_equal(
        head.sample(x, 3, seed=1, allowed=lists),
        plain.sample(x, 3, seed=1, allowed=lists),
    )


@pytest.mark.parametrize("ragged", [False, True])
@pytest.mark.parametrize("name", ["several", "several_nodes", "all"])
def test_metrics_of_several_labels(name, ragged):
    """Perplexity of the means; a class at or below a label's node is right."""
    x, labels = make_data(OPTIONS[name])
    head = make_head(**OPTIONS[name])
    model = make_model(
        head,
        weighted_metrics=[Perplexity(head), PrecisionAtK(head, 4)],
        run_eagerly=name == "several_nodes",
    )
    y = labels
    if ragged:
        y = tf.RaggedTensor.from_tensor(labels, padding=-1)
    data = tf.data.Dataset.from_tensor_slices((x, y)).batch(8)
    logs = model.evaluate(data, verbose=0, return_dict=True)
    losses = expected_losses(head, x, labels, 0)
    counts = counted(head, labels)
    np.testing.assert_allclose(
        logs["perplexity"], np.exp(losses[counts.any(1)].mean()), rtol=1e-4
    )
    right = 0
    for best, its, kept in zip(
        head.top_k(x, 4).classes.numpy(), labels, counts, strict=True
    ):
        rows = its if head.node_labels else TREE.class_rows[its]
        right += sum(np.isin(TREE.path(c), rows[kept]).any() for c in best)
    assert right
    np.testing.assert_allclose(
        logs["precision_at_4"], right / 4 / EXAMPLES, rtol=1e-5
    )


def test_top_k_accuracy_is_of_one_label():
    """Where there are several, the error says what to take instead."""
    x, labels = make_data(OPTIONS["several"])
    head = make_head(several_labels=True)
    model = make_model(head, weighted_metrics=[TopKAccuracy(head, 2)])
    with pytest.raises(ValueError, match=r"has several labels: take .*Prec"):
        model.evaluate(x, labels, verbose=0)


@pytest.mark.parametrize(
    "name, rule",
    [*zip(OPTIONS, itertools.cycle([None, *OPTIMIZERS]), strict=False)],
)
def test_growing(name, rule):
    """Options, learned rows, slots and steps go on; new classes train."""
    options = OPTIONS[name]
    x, labels = make_data(options)
    optimizer = OPTIMIZERS[rule]() if rule else None
    model = make_model(
        make_head(optimizer=optimizer, **options), run_eagerly=True
    )
    model.fit(x, labels, batch_size=8, shuffle=False, verbose=0)
    head = model.layers[-1]
    tree = TREE.grow(4, near=[0, 7, 7, 29])
    grown = tf_hsm.grow(model, tree)
    other = grown.layers[-1]
    objective = head.objective.for_classes(tree.num_classes)
    config = {
        **head.get_config(),
        "tree": tree.get_config(),
        **objective.get_config(),
    }
    assert other.get_config() == config
    rows = tree.map_rows(TREE)
    kept = rows >= 0
    pairs = list(zip(head.row_variables(), other.row_variables(), strict=True))
    old, new = (
        (head.optimizer, other.optimizer)
        if rule
        else (model.optimizer, grown.optimizer)
    )
    assert int(new.iterations) == int(old.iterations) == 3
    slots = [
        pair
        for mine, its in pairs
        for pair in zip(old.slots(mine), new.slots(its), strict=True)
    ]
    for mine, its in (*pairs, *slots):
        np.testing.assert_array_equal(
            np.asarray(its)[kept], np.asarray(mine)[rows[kept]]
        )
    assert rule == "sgd" or slots
    if "node_labels" in options:
        old_row = np.append(np.full(TREE.num_rows, -1), -1)  # -1 stays
        old_row[rows[kept]] = np.flatnonzero(kept)
        labels = np.where(labels == options.get("ignore_class"), -1, labels)
        labels = old_row[labels]
        added = tree.class_rows[-1]
    else:
        added = tree.num_classes - 1
    if "several_labels" in options:
        labels[-1, 0] = added
    else:
        labels[-1] = added
    before = other.log_prob([[tree.num_classes - 1]], x[-1:])
    grown.run_eagerly = name not in TRACED_WHEN_GROWN
    grown.fit(x, labels, batch_size=8, shuffle=False, epochs=3, verbose=0)
    assert other.log_prob([[tree.num_classes - 1]], x[-1:]) > before
