"""Metrics of ranked classes, against float64 NumPy."""

import functools
import itertools
import json

import keras
import numpy as np
import pytest
import tensorflow as tf

from tests.support import heads_by_name, inference_reference
from tests.support.heads_by_name import TREE, WIDTH, make
from tf_hsm import layers, metrics
from tf_hsm.metrics import _of_the_best

N, EXAMPLES = heads_by_name.NUM_CLASSES, 25
RNG = np.random.default_rng(3)
X = RNG.normal(size=[EXAMPLES, WIDTH]) * 2
X[[4, 11]] = 0  # These are masked.
COUNTED = X.any(1)
ONE = RNG.integers(N, size=EXAMPLES)
# Up to 5 labels; the first input has none, and the second one twice.
SEVERAL = RNG.permuted(np.tile(np.arange(N), [EXAMPLES, 1]), axis=1)[:, :5]
SEVERAL[np.arange(5) >= RNG.integers(1, 6, size=[EXAMPLES, 1])] = -1
SEVERAL[0] = -1
SEVERAL[1, :4] = [7, 9, 7, -1]
COUNTS = RNG.integers(50, size=N)


def inputs_of(head):
    """Hidden vectors, or ids of an embedding."""
    if isinstance(head, layers.EmbeddingSoftmax):
        return np.arange(EXAMPLES) % head.num_embeddings
    return X


def evaluated(head, metric, labels, weights=None):
    """Evaluates a metric in batches of uneven sizes."""
    x = inputs_of(head)
    inputs = keras.Input(x.shape[1:], dtype=x.dtype.name)
    hidden = inputs
    if x is X:
        hidden = keras.layers.Masking(dtype=head.dtype_policy)(inputs)
    model = keras.Model(inputs, head(hidden))
    for variable in head.weights:
        rng = np.random.default_rng(len(variable.shape))
        variable.assign(2 * rng.normal(size=variable.shape))
    # A graph takes seconds to make; one kind of head shows that it works.
    model.compile(
        loss=head.loss,
        weighted_metrics=[metric],
        run_eagerly=not isinstance(head, layers.HierarchicalSoftmax),
    )
    logs = model.evaluate(
        x, labels, 9, sample_weight=weights, verbose=0, return_dict=True
    )
    return logs[metric.name]


def ranked(head):
    """All classes of each input, best first."""
    return inference_reference.ranking(
        np.float64(head.log_probs(inputs_of(head)))
    )


def label_sets(labels):
    """The labels of each input, as sets."""
    return [{c for c in row if c >= 0} for row in labels.reshape(EXAMPLES, -1)]


def recall(best, its, k):
    return len(its & set(best[:k])) / len(its) if its else 0.0


def ndcg(best, its, k):
    gains = np.isin(best[:k], list(its))
    discounts = 1 / np.log2(1 + np.arange(1, gains.size + 1))
    ideal = discounts[: len(its)].sum()
    return (gains * discounts).sum() / ideal if its else 0.0


def reciprocal_rank(best, its, k):
    places = np.flatnonzero(np.isin(best[:k], list(its)))
    return 1 / (1 + places[0]) if places.size else 0.0


def precision(best, its, k):
    return len(its & set(best[:k])) / k


def accuracy(best, its, k):
    return float(its <= set(best[:k]))


KINDS = {
    precision: metrics.PrecisionAtK,
    recall: metrics.RecallAtK,
    ndcg: metrics.NDCGAtK,
    reciprocal_rank: metrics.MeanReciprocalRank,
    accuracy: metrics.TopKAccuracy,
}
scored = metrics.PropensityScoredPrecisionAtK
# Each makes a metric of a head.
METRICS = [
    *(functools.partial(kind, k=7) for kind in KINDS.values()),
    metrics.Perplexity,
    lambda head: scored(head, COUNTS, 400, 3, a=0.5, b=0.4),
]


@pytest.mark.parametrize("k", [6, 4, N + 5])
@pytest.mark.parametrize(
    "name, formula",
    [
        (name, formula)
        for name, formula in itertools.product(heads_by_name.NAMES, KINDS)
        if (name, formula) != ("LabelTree", accuracy)
    ],
)
def test_equals_the_formula(name, formula, k):
    """For one label and for several, with masks and weights of inputs."""
    if formula is precision:
        k = min(k, N)
    weights = np.linspace(0, 2, EXAMPLES)
    several = name == "LabelTree" or k == 4 or formula is precision
    several = several and formula is not accuracy
    options = {} if name == "LabelTree" else {"several_labels": several}
    labels = SEVERAL if several else ONE
    counts = np.full(EXAMPLES, True)
    if name != "EmbeddingSoftmax":
        counts = COUNTED
    if not several:
        options["ignore_class"] = int(ONE[7])
        counts = counts & (ONE[7] != ONE)
    head = make(name, dtype="float64", **options)
    metric = KINDS[formula](head, k, dtype="float64")
    found = evaluated(head, metric, labels, weights)
    wanted = [
        formula(best, its, k)
        for best, its in zip(ranked(head), label_sets(labels), strict=True)
    ]
    assert np.std(wanted) > 0 or k >= N
    assert metric.get_config()["k"] == k
    wanted = np.average(wanted, weights=weights * counts)
    np.testing.assert_allclose(found, wanted, rtol=1e-6)


@pytest.mark.parametrize("several", [False, True])
@pytest.mark.parametrize("k", [4, 9])
def test_propensity_scored_precision(k, several):
    """The metric is the ratio of the paper's two sums over all inputs."""
    head = make("HierarchicalSoftmax", dtype="float64", several_labels=several)
    labels = SEVERAL if several else ONE
    metric = scored(head, COUNTS, 400, k, a=0.6, b=2.6, dtype="float64")
    found = evaluated(head, metric, labels)
    constant = (np.log(400) - 1) * 3.6**0.6
    propensities = 1 / (1 + constant * np.exp(-0.6 * np.log(COUNTS + 2.6)))
    gained = possible = 0.0
    for best, its, counts in zip(
        ranked(head), label_sets(labels), COUNTED, strict=True
    ):
        if not counts:
            continue
        gained += sum(1 / propensities[c] for c in best[:k] if c in its)
        gains = sorted((1 / propensities[c] for c in its), reverse=True)
        possible += sum(gains[:k])
    assert 0 < gained < possible
    np.testing.assert_allclose(found, gained / possible, rtol=1e-6)


def test_ties_have_the_order_of_the_search():
    """All classes are alike: class c has the rank c + 1."""
    head = make(
        "HierarchicalSoftmax",
        kernel_initializer="zeros",
        ignore_class=29,
        dtype="float64",
    )
    head.build([None, WIDTH])
    head.bias.assign(np.zeros(head.bias.shape))
    order = head.top_k(X[:1], N).classes[0].numpy()
    metric = metrics.MeanReciprocalRank(head)
    for c in (0, 7, 28):
        metric.reset_state()
        metric.update_state(np.array([c, 29]), head(X[:2]))
        rank = 1 + int(np.flatnonzero(order == c)[0])
        np.testing.assert_allclose(metric.result(), 1 / rank, rtol=1e-6)


def test_a_label_without_a_probability_is_not_found():
    """A NaN is no rank."""
    head = make("HierarchicalSoftmax")
    head.build([None, WIDTH])
    metric = metrics.MeanReciprocalRank(head)
    metric.update_state(np.array([3]), head(np.full([1, WIDTH], np.nan)))
    assert metric.result() == 0


class Counted(layers.HierarchicalSoftmax):
    """Keeps the bounds of its searches."""

    bounds = None

    def top_k(self, inputs, k, **options):
        self.bounds = options["bounds"]
        return super().top_k(inputs, k, **options)


@pytest.mark.parametrize("is_on_gpu", [False, True])
@pytest.mark.parametrize("labels", [ONE[:, np.newaxis], SEVERAL])
@pytest.mark.parametrize("k", [1, 5, 1000])
@pytest.mark.parametrize("kind", ["mrr", "recall"])
def test_the_search_for_the_rank_is_bounded(
    kind, k, labels, is_on_gpu, monkeypatch
):
    """No group below the labels' probability is opened.

    The rank of one label, or of the first of several, needs no search on CPUs.
    """
    monkeypatch.setattr(_of_the_best, "is_on_gpu", lambda weights: is_on_gpu)
    several = labels.shape[-1] > 1
    head = Counted(TREE, several_labels=several, dtype="float64")
    head.build([None, WIDTH])
    ranking = ranked(head)
    metric, formula = {
        "mrr": (metrics.MeanReciprocalRank(head, k), reciprocal_rank),
        "recall": (metrics.RecallAtK(head, k), recall),
    }[kind]
    metric.update_state(labels, head(X))
    wanted = [
        formula(best, its, k)
        for best, its in zip(ranking, label_sets(labels), strict=True)
    ]
    np.testing.assert_allclose(metric.result(), np.mean(wanted), rtol=1e-6)
    is_searched = is_on_gpu or (several and kind == "recall")
    assert (head.bounds is not None) == is_searched
    if not is_searched:
        return
    own = head.log_prob(np.maximum(labels, 0), X).numpy()
    reduce, none = (np.max, -np.inf) if kind == "mrr" else (np.min, np.inf)
    own = reduce(np.where(labels < 0, none, own), -1)
    is_there = (labels >= 0).any(-1)
    bounds = head.bounds.numpy()
    np.testing.assert_allclose(bounds[is_there], own[is_there], rtol=1e-2)
    assert (bounds[is_there] < own[is_there]).all()
    assert (bounds[~is_there] == np.inf).all()


def is_found(best, its, k):
    return float(bool(its & set(best[:k])))


def test_labels_at_inner_nodes():
    """A label is found by a class below it; two metrics refuse such labels."""
    rows = RNG.integers(TREE.num_rows, size=EXAMPLES)
    below = [set(TREE.classes_below(row).tolist()) for row in rows]
    for formula, kind in (
        (is_found, metrics.RecallAtK),
        (precision, metrics.PrecisionAtK),
        (reciprocal_rank, metrics.MeanReciprocalRank),
    ):
        head = make("HierarchicalSoftmax", node_labels=True)
        found = evaluated(head, kind(head, 6), rows[:, np.newaxis])
        wanted = [
            formula(best, its, 6)
            for best, its in zip(ranked(head), below, strict=True)
        ]
        wanted = np.mean(wanted, where=COUNTED)
        np.testing.assert_allclose(found, wanted, rtol=1e-6)
    for metric in (metrics.NDCGAtK(head, 3), scored(head, COUNTS, 400)):
        with pytest.raises(ValueError, match=r"needs labels .*RecallAtK"):
            metric.update_state(rows, head(X))


def test_ragged_labels():
    head = make("LabelTree")
    ragged = tf.RaggedTensor.from_tensor(SEVERAL[:, :3], padding=-1)
    metric, other = metrics.NDCGAtK(head, 5), metrics.NDCGAtK(head, 5)
    metric.update_state(ragged, head(X))
    other.update_state(SEVERAL[:, :3], head(X))
    assert 0 < metric.result() == other.result()


@pytest.mark.parametrize("formula", [f for f in KINDS if f is not accuracy])
def test_no_input_has_a_label(formula):
    head = make("HierarchicalSoftmax", several_labels=True)
    for labels in (
        SEVERAL[:, :0],
        tf.ragged.constant([[]] * EXAMPLES, "int64"),
    ):
        metric = KINDS[formula](head, 5)
        metric.update_state(labels, head(X))
        assert metric.result() == 0


@pytest.mark.parametrize("make_metric", METRICS, ids=itertools.count())
def test_config(make_metric):
    """As JSON; what is read back has the same name, head and result."""
    head = make("HierarchicalSoftmax")
    metric = make_metric(head)
    first = metric.result()
    config = json.loads(json.dumps(keras.saving.serialize_keras_object(metric)))
    again = keras.saving.deserialize_keras_object(config)
    assert again.name == metric.name == again.get_config()["name"]
    output = head(X)
    for one, hidden in ((metric, output), (again, output.numpy())):
        one.update_state(ONE[:, np.newaxis], hidden)
    assert metric.result() == again.result() != first
    metric.reset_state()
    assert metric.result() == first


@pytest.mark.parametrize(
    "call, message",
    [
        *(
            (lambda head, kind=kind: kind(head, 0), "k = 0 is below 1")
            for kind in KINDS.values()
        ),
        (lambda head: scored(head, [1, -1], 9), "class 1 is -1"),
        (lambda head: scored(head, [1], 1), "num_examples"),
        (lambda head: scored(head, [1], 9, b=0), "b = 0"),
        # Not even None, which `Perplexity` takes for losses.
        (lambda head: metrics.RecallAtK(None), "head must be a layer"),
        (lambda head: metrics.TopKAccuracy(7), "tf_hsm.layers, but is int"),
        (
            lambda head: metrics.PrecisionAtK(head, 31).update_state(
                SEVERAL, head(X)
            ),
            "k = 31, but .* has 30 classes",
        ),
        (
            lambda head: scored(head, [1, 2], 9).update_state(ONE, head(X)),
            "counts of 2 classes, .* has 30",
        ),
        (
            lambda head: metrics.PrecisionAtK(head).update_state(ONE, head(X)),
            r"take tf_hsm\.metrics\.TopKAccuracy",
        ),
        # The outputs of another model's softmax are no hidden vectors.
        *(
            (
                lambda head, kind=kind: kind(head).update_state(
                    ONE[:4], np.zeros([4, N])
                ),
                r"\(4, 30\), must be the hidden vectors \[\.\.\., 6\]",
            )
            for kind in (metrics.Perplexity, metrics.TopKAccuracy)
        ),
    ],
    ids=itertools.count(),
)
def test_refusals(call, message):
    head = make("HierarchicalSoftmax")
    head.build([None, WIDTH])
    with pytest.raises((TypeError, ValueError), match=message):
        call(head)


@pytest.mark.parametrize("in_graph", [False, True])
@pytest.mark.parametrize("several", [False, True])
@pytest.mark.parametrize("make_metric", METRICS, ids=itertools.count())
def test_labels_that_are_no_class(make_metric, several, in_graph):
    """All metrics refuse them as a loss does, but where they do not count."""
    head = make("HierarchicalSoftmax", several_labels=several, ignore_class=-7)
    hidden = head(X)
    metric = make_metric(head)
    if several and isinstance(metric, metrics.TopKAccuracy):
        return
    update = metric.update_state
    if in_graph:
        update = tf.function(update)
    labels = ONE.copy()
    if several or isinstance(metric, metrics.PrecisionAtK):
        labels = labels[:, np.newaxis]
    labels[3] = -7
    update(labels, hidden)
    for wrong in (N, N + 60, 2**40):
        labels[5] = wrong
        with pytest.raises(tf.errors.InvalidArgumentError, match=f"{wrong}"):
            update(labels, hidden)
