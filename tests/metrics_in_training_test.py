"""Metrics of a training step see the weights after it, and change nothing.

The hidden vectors are from before it; in these models they are the inputs.
"""

import keras
import numpy as np
import pytest

from tests.support.heads_by_name import NUM_CLASSES as N
from tests.support.heads_by_name import WIDTH, make
from tests.support.pairs import all_pairs
from tf_hsm import metrics, optimizers

RNG = np.random.default_rng(0)
X = RNG.normal(size=[40, WIDTH]).astype("f4")
Y = RNG.integers(N, size=40)
SEVERAL = RNG.permuted(np.tile(np.arange(N), [40, 1]), axis=1)[:, :3]
SHARES = RNG.uniform(0.1, 0.4, size=[40, 3]).astype("f4")


def make_model(head, form, own, labels_shape, eager=True, **compiling):
    """A model; an endpoint has the losses and the hidden vectors as outputs."""
    inputs = keras.Input([WIDTH])
    labels = keras.Input(labels_shape, dtype="int32")
    shares = keras.Input(labels_shape)
    if form == "compile":
        model = keras.Model(inputs, head(inputs))
        compiling["loss"] = head.loss
    else:
        given = [labels] if form == "endpoint" else [labels, shares]
        outputs = [head(inputs, *given), keras.layers.Identity()(inputs)]
        model = keras.Model([inputs, *given], outputs)
        compiling = {kind: [None, its] for kind, its in compiling.items()}
    optimizer = "sgd" if own else keras.optimizers.SGD(20.0)
    model.compile(optimizer, run_eagerly=eager, **compiling)
    return model


@pytest.mark.parametrize(
    "name, form, own, eager, ranks_first",
    [
        ("SampledSoftmax", form, False, form == "compile", False)
        for form in ("compile", "endpoint")
    ]
    + all_pairs(
        ["HierarchicalSoftmax", "AdaptiveSoftmax", "LabelTree"],
        ["compile", "endpoint"],
        [False, True],
        [False, True],
        [False, True],
    ),
)
def test_ranks_after_the_step(name, form, own, eager, ranks_first):
    """A metric of `fit` is that of `evaluate` after the step, not before."""
    keras.utils.set_random_seed(0)
    options = {"optimizer": optimizers.SGD(20.0)} if own else {}
    head = make(name, **options)
    x, y, metric = X, Y, metrics.TopKAccuracy(head, 5)
    if name == "LabelTree":
        y, metric = SEVERAL, metrics.PrecisionAtK(head, 5)
    if ranks_first:  # with more places than classes, and a search of its own
        metric = metrics.MeanReciprocalRank(head, 1000)
    model = make_model(
        head, form, own, y.shape[1:], eager, weighted_metrics=[metric]
    )
    if form == "endpoint":
        x, y = [X, y], [y, y]
    check_training(model, x, y, metric.name)


def check_training(model, x, y, name):
    """Makes a step, which is so long that it changes the metric."""
    options = {"verbose": 0, "batch_size": 40}
    before = model.evaluate(x, y, return_dict=True, **options)
    found = model.fit(x, y, **options).history
    after = model.evaluate(x, y, return_dict=True, **options)
    (key,) = [key for key in before if name in key]
    assert found[key] == [pytest.approx(after[key], abs=1e-6)]
    assert abs(after[key] - before[key]) > 0.001


class TwoOutputs(keras.Model):
    """As the functional one."""

    def __init__(self, head):
        super().__init__()
        self.head = head
        self.dense = keras.layers.Dense(1)

    def call(self, x):
        return {"word": self.head(x), "value": self.dense(x)}


@pytest.mark.parametrize("kind", ["one", "two", "subclassed"])
def test_outputs_with_other_names_than_the_heads(kind):
    keras.utils.set_random_seed(0)
    head = make("HierarchicalSoftmax")
    inputs = keras.Input([WIDTH])
    y, losses = {"word": Y}, {"word": head.loss}
    if kind == "one":
        model = keras.Model(inputs, {"word": head(inputs)})
    else:
        y["value"], losses["value"] = np.zeros(40), "mse"
        value = keras.layers.Dense(1)(inputs)
        model = keras.Model(inputs, {"word": head(inputs), "value": value})
    if kind == "subclassed":
        model = TwoOutputs(head)
    model.compile(
        keras.optimizers.SGD(20.0),
        losses,
        weighted_metrics={"word": [metrics.TopKAccuracy(head, 3)]},
        run_eagerly=True,
    )
    check_training(model, X, y, "top_3")


@pytest.mark.parametrize("own", [False, True])
def test_perplexity_of_labels_that_count_alike(own):
    """`metrics=` get no weights of labels."""
    options = {"optimizer": optimizers.SGD(20.0)} if own else {}
    head = make("HierarchicalSoftmax", several_labels=True, **options)
    model = make_model(
        head, "compile", own, [3], metrics=[metrics.Perplexity(head)]
    )
    options = {"verbose": 0, "batch_size": 40, "sample_weight": SHARES}
    found = model.fit(X, SEVERAL, **options).history
    alike = head(X, SEVERAL)  # after the step, as evaluate
    after = model.evaluate(X, SEVERAL, return_dict=True, **options)
    np.testing.assert_allclose(
        [*found["perplexity"], after["perplexity"]],
        np.exp(np.mean(alike)),
        rtol=1e-5,
    )


def test_a_metric_draws_no_classes():
    """A sampled softmax trains with it as without."""
    found = []
    for has_metric in (False, True):
        keras.utils.set_random_seed(0)
        head = make("SampledSoftmax", several_labels=True, seed=1)
        chosen = [metrics.Perplexity(head)] if has_metric else None
        model = make_model(head, "compile", False, [3], metrics=chosen)
        options = {"batch_size": 10, "shuffle": False, "verbose": 0}
        model.fit(X, SEVERAL, sample_weight=SHARES, **options)
        found.append(model.get_weights())
    for one, other in zip(*found, strict=True):
        np.testing.assert_array_equal(one, other)


def test_perplexity_of_an_endpoint_with_weights_of_labels():
    """The mean is over their sum, where the metric has them too."""
    head = make("HierarchicalSoftmax", several_labels=True)
    metric = metrics.Perplexity(head)
    model = make_model(head, "weighted", False, [3], weighted_metrics=[metric])
    logs = model.evaluate(
        [X, SEVERAL, SHARES],
        [SEVERAL, SEVERAL],
        sample_weight=[None, SHARES],
        batch_size=40,
        return_dict=True,
        verbose=0,
    )
    losses = -np.take_along_axis(head.log_probs(X).numpy(), SEVERAL, 1)
    mean = (losses * SHARES).sum() / SHARES.sum()
    (found,) = [logs[key] for key in logs if "perplexity" in key]
    np.testing.assert_allclose(found, np.exp(mean), rtol=1e-5)


@pytest.mark.parametrize(
    "labels, weights, other_weights, is_same",
    [
        # The weights of several labels: all inputs count alike.
        (SEVERAL, None, SHARES, True),
        # The weight of one label is the weight of its input.
        (Y[:, None], np.arange(40.0), np.arange(40.0)[:, None], True),
        (Y[:, None], np.arange(40.0), None, False),
    ],
)
def test_precision_with_weights(labels, weights, other_weights, is_same):
    found = []
    for sample_weight in (weights, other_weights):
        keras.utils.set_random_seed(0)
        head = make("HierarchicalSoftmax", several_labels=True)
        metric = metrics.PrecisionAtK(head, 9)
        model = make_model(
            head, "compile", False, labels.shape[1:], weighted_metrics=[metric]
        )
        logs = model.evaluate(
            X, labels, sample_weight=sample_weight, return_dict=True, verbose=0
        )
        found.append(logs["precision_at_9"])
    assert found[0] > 0 and (found[0] == found[1]) == is_same
