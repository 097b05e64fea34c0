"""HeadLoss by itself; tests/layers trains with it."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from tests.support.models import WIDTH, make_head
from tf_hsm.losses import HeadLoss, focal_loss
from tf_hsm.metrics import Perplexity
from tf_hsm.runtime import replicas

LABELS = np.array([[3, 4, 5], [6, 7, 4]])


def make_outputs(**options):
    """A head, hidden vectors for LABELS, and the losses; ignored ones are 0."""
    head = make_head(**options)
    inputs = tf.random.stateless_normal([*LABELS.shape, WIDTH], [0, 1])
    return head, head(inputs), head(inputs, LABELS).numpy()


@pytest.mark.parametrize("ignore_class", [None, 4])
@pytest.mark.parametrize("masked", [False, True])
def test_reductions(ignore_class, masked):
    """As for every Keras loss; labels that do not count are not in a mean."""
    head, outputs, losses = make_outputs(ignore_class=ignore_class)
    kept = np.ones(LABELS.shape, bool)
    if masked:
        kept[1, 0] = False
        outputs._keras_mask = tf.constant(kept)
    kept &= ignore_class != LABELS
    weights = np.array([[1.0, 0.5, 0.25], [2.0, 3.0, 0.0]])
    for reduction, expected in {
        "sum_over_batch_size": (losses * weights)[kept].sum() / kept.sum(),
        "mean_with_sample_weight": np.average(
            losses[kept], weights=weights[kept]
        ),
        "sum": (losses * weights)[kept].sum(),
        "none": losses * weights * kept,
    }.items():
        loss = HeadLoss(head, reduction)
        np.testing.assert_allclose(
            loss(LABELS, outputs, weights), expected, rtol=1e-5
        )


@pytest.mark.parametrize("form", ["compile", "endpoint", "replica"])
def test_float64(form, monkeypatch):
    """The mean of float64 losses is none of rounded ones, nor its gradient."""
    head = make_head(dtype="float64", ignore_class=4)
    rng = np.random.default_rng(0)
    inputs = tf.constant(rng.normal(size=[*LABELS.shape, WIDTH]))
    weights = rng.uniform(size=LABELS.shape)  # no float32 numbers
    head.build(inputs.shape)
    with tf.GradientTape(persistent=True) as tape:
        tape.watch(inputs)
        losses = head(inputs, LABELS)
        if form == "endpoint":
            head(inputs, LABELS, weights)
            (loss,) = head.losses
        else:
            if form == "replica":
                one = tf.distribute.get_replica_context
                monkeypatch.setattr(replicas, "context", one)
            loss = head.loss(LABELS, head(inputs), weights)
        expected = tf.reduce_sum(losses * weights) / (LABELS != 4).sum()
    sources = [inputs, head.bias.value]
    for found, true in (
        (loss, expected),
        *zip(
            tape.gradient(loss, sources),
            tape.gradient(expected, sources),
            strict=True,
        ),
    ):
        is_rounded = found is loss and form == "endpoint"  # as Keras wants
        assert found.dtype == tf.float32 if is_rounded else tf.float64
        np.testing.assert_allclose(
            tf.convert_to_tensor(found),
            tf.convert_to_tensor(true),
            rtol=1e-6 if is_rounded else 1e-14,
        )


@pytest.mark.parametrize("form", ["compile", "endpoint"])
@pytest.mark.parametrize("options", [{"optimizer": "sgd"}, {}])
def test_float64_beside_float32(form, options):
    """Keras adds up losses of one type, those of the body's penalties too."""
    if not options:
        options = {"kernel_regularizer": "l2"}
    head = make_head(dtype="float64", **options)
    inputs, labels = keras.Input([5]), keras.Input([], dtype="int64")
    hidden = keras.layers.Dense(WIDTH, kernel_regularizer="l2")(inputs)
    x, y = np.ones([4, 5]), np.arange(4)
    if form == "compile":
        model = keras.Model(inputs, head(hidden))
        model.compile("sgd", head.loss)
    else:
        model = keras.Model([inputs, labels], head(hidden, labels))
        model.compile("sgd")
        x = [x, y]
    first, second = model.fit(x, y, epochs=2, verbose=0).history["loss"]
    assert second < first


def test_no_label_counts():
    """The mean over nothing is 0, not NaN."""
    head, outputs, _ = make_outputs(ignore_class=-1)
    assert float(head.loss(np.full_like(LABELS, -1), outputs)) == 0


@pytest.mark.parametrize("weights", [0.5, [[1], [0]], [[1, 1, 2], [0, 3, 0]]])
def test_sample_weight_broadcasts_from_the_left(weights):
    """One weight per sequence, or per label; with a last dimension of 1 too."""
    head, outputs, losses = make_outputs()
    weights = np.array(weights, "f4")
    full = weights.reshape(weights.shape + (1,) * (2 - weights.ndim))
    expected = (losses * full).mean()
    for given in (weights, np.broadcast_to(full, LABELS.shape)[..., None]):
        loss = head.loss(LABELS[..., np.newaxis], outputs, given)
        np.testing.assert_allclose(loss, expected, rtol=1e-5)


def test_class_weight_of_fit_on_sequences():
    """Keras makes one weight of each sequence, by its largest label."""
    head, outputs, _ = make_outputs()
    with pytest.raises(ValueError, match="give the head class_weights= inst"):
        head.loss(LABELS, outputs, [1.0, 0.0])
    with pytest.raises(ValueError, match="give the head class_weights= inst"):
        Perplexity(head).update_state(LABELS, outputs, [1.0, 0.0])
    model = keras.Sequential([keras.Input([3, WIDTH]), head])
    model.compile("sgd", head.loss)
    inputs = np.zeros([2, 3, WIDTH], "f4")
    with pytest.raises(ValueError, match=r"sample_weight\[:, np\.newaxis\]"):
        model.fit(inputs, LABELS, class_weight={0: 2.0}, verbose=0)
    # One label for each input, in a column.
    model.evaluate(inputs[:, :1], LABELS[:, :1], sample_weight=np.ones(2))


def test_outputs_are_vectors():
    """A copy or a part of the output will do; other shapes are refused."""
    head, outputs, losses = make_outputs()
    for found, labels, wanted in (
        (outputs.numpy(), LABELS, losses),
        (outputs + 0, LABELS, losses),
        (outputs[:, 1:], LABELS[:, 1:], losses[:, 1:]),
    ):
        np.testing.assert_allclose(
            head.loss(labels, found), wanted.mean(), rtol=1e-6
        )
    for wrong in (losses, np.ones([2, 3, 30])):
        message = rf"y_pred, of shape .* \[\.\.\., {WIDTH}\]"
        with pytest.raises(ValueError, match=message):
            head.loss(LABELS, wrong)


def test_no_head():
    with pytest.raises(TypeError, match="is Dense"):
        HeadLoss(keras.layers.Dense(3))


def test_config():
    """The loss of a loaded model is that of the saved one."""
    head, outputs, _ = make_outputs()
    for dtype in (None, "float16"):
        loss = HeadLoss(head, "sum", name="nats", dtype=dtype)
        config = keras.losses.serialize(loss)
        again = keras.losses.deserialize(config)
        assert again.get_config() == loss.get_config()
        assert again(LABELS, outputs) == loss(LABELS, outputs)
        assert again.dtype == loss.dtype == (dtype or "float32")


@pytest.mark.parametrize("gamma", [0, 0.5, 1, 2, 5.5])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_focal_loss(gamma, dtype):
    """Its value and slope are exact for tiny and huge losses, and at 0."""
    losses = tf.constant([0, 1e-20, 1e-9, 1e-3, 0.7, 3, 50, 800], dtype)
    with tf.GradientTape() as tape:
        tape.watch(losses)
        found = focal_loss(losses, gamma)
    slopes = tape.gradient(found, losses)
    wide = losses.numpy().astype(np.longdouble)
    p, missed = np.exp(-wide), -np.expm1(-wide)
    with np.errstate(over="ignore", under="ignore"):
        values = (missed**gamma * wide).astype(dtype)
        its = missed[1:] ** (gamma - 1) * (missed + gamma * p * wide)[1:]
    # TensorFlow takes what is smaller than normal for 0.
    close = {"rtol": 1e-5 if dtype == "float32" else 1e-13, "atol": 1e-35}
    np.testing.assert_allclose(found, values, **close)
    np.testing.assert_allclose(slopes[1:], its.astype(dtype), **close)
    assert float(slopes[0]) == (gamma == 0)


def test_focal_loss_of_rounding_below_zero():
    losses = tf.constant([-1e-8])
    with tf.GradientTape() as tape:
        tape.watch(losses)
        found = focal_loss(losses, 0.5)
    assert abs(float(found[0])) == abs(tape.gradient(found, losses)[0]) == 0


def test_focal_loss_of_what_cannot_be():
    """An infinite loss has the slope 1, and spoils no other."""
    losses = tf.Variable([1.0, 1e3, 2e4, np.inf])
    with tf.GradientTape() as tape:
        focal = focal_loss(losses, gamma=2.0)
    slopes = tape.gradient(focal, losses).numpy()
    np.testing.assert_array_equal(focal[1:], losses[1:])
    np.testing.assert_array_equal(slopes[1:], [1, 1, 1])
    assert 0 < slopes[0] < 1


@pytest.mark.parametrize("gamma", [-1, float("inf"), float("nan"), None])
def test_wrong_gamma(gamma):
    with pytest.raises(ValueError, match=r"gamma is .* at least 0"):
        focal_loss([1.0], gamma)
