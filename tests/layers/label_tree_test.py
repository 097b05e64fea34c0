"""LabelTree: in `fit`, as an endpoint, in place, saved."""

import keras
import numpy as np

import tf_hsm
from tf_hsm.layers import LabelTree
from tf_hsm.metrics import PrecisionAtK

WIDTH, NUM_LABELS = 8, 40
TREE = tf_hsm.Tree.balanced(NUM_LABELS, [3, 4, 4])


def make_data(examples=50, seed=0):
    """Labels that follow from the inputs, -1 after the last; some have none."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=[examples, WIDTH]).astype("f4")
    directions = rng.normal(size=[WIDTH, NUM_LABELS])
    scores = x @ directions - 4
    ranked = np.argsort(-scores, axis=1)[:, :5]
    labels = np.where(np.take_along_axis(scores, ranked, 1) > 0, ranked, -1)
    assert (labels < 0).all(1).any() and (labels >= 0).all(1).any()
    return x, labels


def make_model(head, optimizer=None, **compiling):
    model = keras.Sequential(
        [keras.Input([WIDTH]), keras.layers.Dense(WIDTH), head]
    )
    optimizer = optimizer or keras.optimizers.SGD(0.5)
    model.compile(optimizer, loss=head.loss, **compiling)
    return model


def hidden(model, x):
    return model.layers[0](x)


def test_learns():
    """The labels are found, by the k best and by a threshold."""
    x, labels = make_data()
    keras.utils.set_random_seed(0)
    head = LabelTree(TREE)
    model = make_model(
        head,
        tf_hsm.optimizers.Adagrad(0.5, 0.1),
        metrics=[PrecisionAtK(head, 1), PrecisionAtK(head, 3)],
    )
    before = model.evaluate(x, labels, verbose=0, return_dict=True)
    model.fit(np.tile(x, [80, 1]), np.tile(labels, [80, 1]), verbose=0)
    after = model.evaluate(x, labels, verbose=0, return_dict=True)
    counts = (labels >= 0).sum(1)
    assert after["loss"] < 0.3 * before["loss"]
    best = np.minimum(counts, 3).mean() / 3
    assert before["precision_at_3"] < 0.5 * best
    assert after["precision_at_3"] > 0.8 * best
    found = head.top_k(hidden(model, x), 6, threshold=0.5).classes.numpy()
    wrong = [
        set(its[its >= 0]) ^ set(true[true >= 0])
        for its, true in zip(found, labels, strict=True)
    ]
    assert sum(map(len, wrong)) < 0.6 * counts.sum()
    best = head.top_k(hidden(model, x), 1).classes[:, 0]
    predicted = head.predict_class(model.predict(x, verbose=0))
    np.testing.assert_array_equal(predicted, best)


def test_allowed_labels():
    """Shared, of each input, and as another input of a model."""
    x, _ = make_data()
    head = LabelTree(TREE)
    model = make_model(head)
    inputs = hidden(model, x)
    every = head.top_k(inputs, TREE.num_classes)
    shared = [1, 5, 6, 30]
    lists = np.random.default_rng(0).integers(
        -1, TREE.num_classes, size=(len(x), 3)
    )
    symbol = keras.Input([3], dtype="int64")
    asked = keras.Model(
        [model.inputs[0], symbol], head.top_k(head.input, 2, allowed=symbol)
    )
    for found, allowed in (
        (head.top_k(inputs, 2, allowed=shared), [shared] * len(x)),
        (head.top_k(inputs, 2, allowed=lists), lists),
        (asked.predict([x, lists], verbose=0), lists),
    ):
        for row, ranked, its in zip(
            np.asarray(found[1]), every.classes.numpy(), allowed, strict=True
        ):
            wanted = ranked[np.isin(ranked, its)][:2].tolist()
            assert row.tolist() == [*wanted, -1, -1][:2]
