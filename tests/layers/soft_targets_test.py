"""Weights of several labels: the probabilities of a teacher."""

import keras
import numpy as np
import pytest
import tensorflow as tf

import tf_hsm
from tests.support import oracle, training, training_losses
from tests.support.in_place_models import make_adaptive
from tests.support.models import (
    NUM_CLASSES,
    TREE,
    WIDTH,
    make_head,
    sampled_head,
)


def make_targets(examples=11, most=4, seed=2):
    """Padded classes and their probabilities, whose sum is at most 1.

    The padding has a number too, which must not count. One example has none.
    """
    rng = np.random.default_rng(seed)
    classes = np.stack(
        [rng.permutation(NUM_CLASSES)[:most] for _ in range(examples)]
    )
    counts = rng.integers(1, most + 1, size=examples)
    counts[examples // 3] = 0
    classes[np.arange(most) >= counts[:, np.newaxis]] = -1
    return classes, rng.dirichlet(np.ones(most + 1), examples)[:, :most]


def cross_entropy(classes, probs):
    """-sum p log q, its mean over the examples with classes, as a function."""
    target = (
        training_losses.one_hot(classes, probs) / (classes >= 0).any(1).sum()
    )
    return lambda log_probs: (-(target * log_probs).sum(), -target)


def ragged(values, classes):
    """The values `[B, M]` of what is a class."""
    rows = [row[its >= 0] for row, its in zip(values, classes, strict=True)]
    lengths = [len(row) for row in rows]
    return tf.RaggedTensor.from_row_lengths(np.concatenate(rows), lengths)


@pytest.mark.parametrize("in_place", [False, True])
@pytest.mark.parametrize("form", training_losses.FORMS)
def test_the_cross_entropy_and_its_gradient(form, in_place):
    x, (classes, probs) = training_losses.random_inputs(11), make_targets()
    results = []
    for labels, weights in (
        (classes, probs),
        (ragged(classes, classes), ragged(probs, classes)),
    ):
        head = training_losses.built_head(
            in_place=in_place, several_labels=True
        )
        want = training_losses.expected(head, x, cross_entropy(classes, probs))
        results.append(
            training_losses.minimized(head, form, x, labels, weights)
        )
        training_losses.assert_near(results[-1], want)
    training_losses.assert_near(*results, 1e-12)


def test_the_oracle_by_differences():
    head = training_losses.built_head()
    x, targets = training_losses.random_inputs(3), make_targets(3, seed=5)
    function = cross_entropy(*targets)
    _, (dx, _, _) = training_losses.expected(head, x, function)
    want = oracle.finite_differences(
        lambda x: training_losses.expected(head, x, function)[0], x
    )
    np.testing.assert_allclose(dx, want, atol=1e-8)


def test_mass_that_is_left_out_is_no_target():
    """Where the loss is least, q is p over the given mass: it scales alone."""
    head = training_losses.built_head(several_labels=True)
    classes, probs = np.array([[3, 9, 20]]), np.array([[0.4, 0.1, 0.2]])
    # A share of 0 would have a log-prior of minus infinity.
    shares = training_losses.one_hot(classes, probs)[0] / probs.sum() + 1e-20
    head.kernel.assign(np.zeros(head.kernel.shape))
    head.bias.assign(TREE.log_prior(shares))
    x = np.ones([1, WIDTH])
    q = np.exp(head.log_prob(classes, x).numpy())
    np.testing.assert_allclose(q, probs / 0.7, rtol=1e-6)
    for scale in (1.0, 1 / 0.7):
        total, (_, _, db) = training_losses.minimized(
            head, "compile", x, classes, probs * scale
        )
        np.testing.assert_allclose(
            total, scale * -(probs * np.log(probs / 0.7)).sum(), rtol=1e-6
        )
        np.testing.assert_allclose(db, 0, atol=1e-9)


def test_perplexities():
    """Each by the weights that it is given, whoever made the losses."""
    rng = np.random.default_rng(4)
    head = tf_hsm.layers.HierarchicalSoftmax(TREE, several_labels=True)
    model = keras.Sequential([keras.Input([WIDTH]), head])
    model.compile(
        loss=head.loss,
        metrics=[tf_hsm.metrics.Perplexity(head, name="plain")],
        weighted_metrics=[tf_hsm.metrics.Perplexity(head, name="weighted")],
    )
    x = training_losses.random_inputs(9)
    y = np.stack([rng.permutation(NUM_CLASSES)[:3] for _ in range(9)])
    model(x)
    losses = -head.log_prob(y, x.astype("f4")).numpy()
    plain = np.exp(losses.mean())
    for weights in (np.full([9, 3], 0.1), rng.random([9, 3])):
        found = model.evaluate(
            x, y, sample_weight=weights, return_dict=True, verbose=0
        )
        weighted = np.exp(np.average(losses, weights=weights))
        np.testing.assert_allclose(found["plain"], plain, rtol=1e-5)
        np.testing.assert_allclose(found["weighted"], weighted, rtol=1e-5)


def test_a_mean_is_that_of_equal_weights():
    classes, _ = make_targets()
    x = training_losses.random_inputs(11)
    head = training_losses.built_head(several_labels=True)
    present = classes >= 0
    weights = present / np.maximum(present.sum(1, keepdims=True), 1)
    np.testing.assert_allclose(
        head(x, classes, weights), head(x, classes), rtol=1e-12
    )


def test_weights_of_inputs_stay_such():
    """`[B]` and `[B, 1]`; for single labels, `[B, 1]` is both."""
    classes, _ = make_targets()
    x, weights = training_losses.random_inputs(11), np.linspace(0, 2, 11)
    head = training_losses.built_head(several_labels=True)
    totals = [
        training_losses.minimized(head, form, x, labels, given)
        for form in training_losses.FORMS
        for labels in (classes, classes[:, :1])
        for given in (weights, weights[:, np.newaxis])
    ]
    for one, other in zip(totals[::2], totals[1::2], strict=True):
        training_losses.assert_near(one, other)


@pytest.mark.parametrize(
    "make, in_place",
    [(make_adaptive, False), (make_adaptive, True), (sampled_head, False)],
)
def test_other_heads(make, in_place):
    """The sum of the losses of single labels, before a step and after it."""
    options = {"optimizer": tf_hsm.optimizers.SGD(1.0)} if in_place else {}
    head = make(several_labels=True, dtype="float64", **options)
    x, (classes, probs) = training_losses.random_inputs(11), make_targets()
    log_probs = head.log_probs(head(x)).numpy()
    want = -(training_losses.one_hot(classes, probs) * log_probs).sum(1)
    np.testing.assert_allclose(head(x, classes, probs), want, rtol=1e-10)
    first = float(sum(head.losses))
    if not in_place:
        return
    training.layer_step(head, x, classes, probs)
    np.testing.assert_allclose(sum(head.losses), first, rtol=1e-6)
    head(x, classes, probs)
    assert float(sum(head.losses)) < first


@pytest.mark.parametrize("is_ragged", [False, True])
def test_fit(is_ragged):
    """In place and not; perplexities by the given mass, and without it."""
    x, (classes, probs) = (
        training_losses.random_inputs(11).astype("f4"),
        make_targets(),
    )
    probs = probs.astype("f4")
    data = (x, classes, probs)
    if is_ragged:
        data = (x, ragged(classes, classes), ragged(probs, classes))
    data = tf.data.Dataset.from_tensor_slices(data).batch(4)
    trained = []
    for optimizer in (None, tf_hsm.optimizers.SGD(0.5)):
        keras.utils.set_random_seed(0)
        head = make_head(several_labels=True, optimizer=optimizer)
        model = keras.Sequential([keras.Input([WIDTH]), head])
        model.compile(
            keras.optimizers.SGD(0.5),
            head.loss,
            metrics=[tf_hsm.metrics.Perplexity(head)],
            weighted_metrics=[tf_hsm.metrics.Perplexity(head, name="weighted")],
        )
        history = model.fit(data, verbose=0, epochs=3).history
        assert history["loss"][-1] < history["loss"][0]
        assert history["weighted"] != history["perplexity"]
        found = model.evaluate(
            *((x, classes) if not is_ragged else (data,)),
            sample_weight=None if is_ragged else probs,
            verbose=0,
            return_dict=True,
            batch_size=None if is_ragged else 11,
        )
        counted = (classes >= 0).any(1)
        for name, losses, count in (
            ("perplexity", head(x, classes), counted.sum()),
            ("weighted", head(x, classes, probs), probs[classes >= 0].sum()),
        ):
            perplexity = np.exp(losses.numpy()[counted].sum() / count)
            np.testing.assert_allclose(found[name], perplexity, rtol=1e-5)
        trained.append([v.numpy() for v in (head.kernel, head.bias)])
    for one, other in zip(*trained, strict=True):
        np.testing.assert_allclose(one, other, atol=1e-5)


def test_as_inputs_of_a_model(tmp_path):
    """The endpoint form, sequences too; saved and loaded."""
    examples, time, most = 3, 2, 4
    classes, probs = make_targets(examples * time, most)
    shape = [examples, time, most]
    inputs = [
        keras.Input([time, WIDTH]),
        keras.Input([time, most], dtype="int64"),
        keras.Input([time, most]),
    ]
    head = make_head(several_labels=True)
    model = keras.Model(inputs, head(*inputs))
    model.compile(keras.optimizers.SGD(0.5))
    x = training_losses.random_inputs(examples * time).astype("f4")
    data = [
        x.reshape([examples, time, WIDTH]),
        classes.reshape(shape),
        probs.reshape(shape).astype("f4"),
    ]
    losses = model.fit(data, verbose=0, epochs=3).history["loss"]
    assert losses[-1] < losses[0]
    model.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    log_probs = head.log_probs(x).numpy()
    want = -(training_losses.one_hot(classes, probs) * log_probs).sum(1)
    found = loaded.predict(data, verbose=0)
    np.testing.assert_allclose(found.ravel(), want, rtol=1e-4, atol=1e-6)


def test_a_temperature_among_given_classes():
    """As the docs have it: that of a flat softmax over these classes."""
    head = training_losses.built_head()
    x, (classes, probs) = (
        training_losses.random_inputs(5),
        make_targets(5, seed=6),
    )
    classes, probs = np.abs(classes), probs / probs.sum(1, keepdims=True)
    inputs = np.repeat(x[:, np.newaxis], classes.shape[1], 1)
    losses = tf_hsm.hierarchical_softmax_loss(
        head.kernel, head.bias, classes, inputs, TREE
    )
    found = tf.nn.softmax_cross_entropy_with_logits(probs, -losses / 3)
    log_probs = head.log_probs(x).numpy()
    powers = np.exp(np.take_along_axis(log_probs, classes, 1)) ** (1 / 3)
    q = powers / powers.sum(1, keepdims=True)
    np.testing.assert_allclose(found, -(probs * np.log(q)).sum(1))


def test_wrong_weights():
    classes, probs = make_targets()
    x, head = (
        training_losses.random_inputs(11),
        training_losses.built_head(several_labels=True),
    )
    with pytest.raises(Exception, match="a number for each label, or one for"):
        head(x, classes, probs[:, :3])
    with pytest.raises(ValueError, match=r"of shape \(11, 4, 1\), has more"):
        head.loss(classes, head(x), probs[..., np.newaxis])
    with pytest.raises(ValueError, match="has more dimensions than the losses"):
        single = training_losses.built_head()
        single.loss(np.zeros(11, int), single(x), probs)
    tree = tf_hsm.layers.LabelTree(TREE)
    with pytest.raises(ValueError, match="must have one number for each input"):
        tree(x, classes, probs)
    rows = tf.ragged.constant([[1, 2], [3]])
    shares = tf.ragged.constant([[0.5], [0.2, 0.8]])
    with pytest.raises(tf.errors.InvalidArgumentError, match="as many for"):
        head(x[:2], rows, shares)


def test_weights_of_inputs_of_a_label_tree():
    """With a last dimension of 1, however many labels there are."""
    x, tree = training_losses.random_inputs(11), tf_hsm.layers.LabelTree(TREE)
    weights = np.random.default_rng(5).random(11)
    for most in (1, 4):
        classes, _ = make_targets(most=most)
        totals = []
        for given in (weights, weights[:, np.newaxis]):
            tree(x, classes, given)
            totals.append(float(tree.losses[0]))
        assert totals[0] == totals[1] > 0
