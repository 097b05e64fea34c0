"""The loss of a SampledSoftmax, against TensorFlow's.

conformance_test.py has the loss over all classes.
"""

import numpy as np
import pytest
import tensorflow as tf

from tests.support import head_oracle
from tests.support.models import sampled_losses
from tests.support.pairs import all_pairs
from tests.support.resized_heads import randomized
from tf_hsm.layers import SampledSoftmax

N, WIDTH, BATCH = 37, 5, 13
COUNTS = 1000 // (1 + np.arange(N)[::-1])
TOLERANCES = {
    "float32": 1e-5,
    "float64": 1e-12,
    "bfloat16": 0.02,
    "mixed_bfloat16": 0.02,
}


def make(num_sampled=11, sampler="log_uniform", **options):
    """A head with random weights."""
    counts = COUNTS if sampler == "counts" else None
    head = SampledSoftmax(
        N,
        num_sampled=num_sampled,
        sampler=sampler,
        counts=counts,
        seed=5,
        **options,
    )
    return randomized(head, WIDTH)


def make_data(dtype="float32", seed=1):
    rng = np.random.default_rng(seed)
    inputs = tf.cast(rng.normal(size=[BATCH, WIDTH]), dtype)
    return inputs, rng.integers(N, size=BATCH)


def losses_and_gradients(head, inputs, labels):
    """The sampled losses, and the gradients of a weighted sum of them."""
    return head_oracle.slopes(head, inputs, lambda x: head(x, labels))


def of_tensorflow(head, inputs, labels, sampled):
    """The same, by `tf.nn.sampled_softmax_loss`, in the type of the losses."""
    dtype = head.loss_dtype
    expected = tf.cast(head._draws.expected_counts, dtype)

    def losses(inputs):
        parameters = [tf.cast(v.value, dtype) for v in head.trainable_weights]
        biases = parameters[1:] or [tf.zeros([N], dtype)]
        return tf.nn.sampled_softmax_loss(
            parameters[0],
            biases[0],
            labels[:, np.newaxis],
            tf.cast(inputs, dtype),
            len(sampled),
            N,
            sampled_values=(
                sampled,
                tf.gather(expected, labels)[:, tf.newaxis],
                tf.gather(expected, sampled),
            ),
        )

    return head_oracle.slopes(head, inputs, losses)


def compare(actual, expected, tolerance):
    for one, other in zip(
        tf.nest.flatten(actual), tf.nest.flatten(expected), strict=True
    ):
        np.testing.assert_allclose(
            tf.cast(tf.convert_to_tensor(one), "float64"),
            tf.cast(tf.convert_to_tensor(other), "float64"),
            rtol=tolerance,
            atol=tolerance,
        )


@pytest.mark.parametrize(
    ("dtype", "sampler", "use_bias"),
    all_pairs(
        [*TOLERANCES], ["log_uniform", "uniform", "counts"], [True, False]
    ),
)
def test_it_is_that_of_tensorflow(dtype, sampler, use_bias):
    """Given the same classes; with labels that are drawn too, and twice."""
    tolerance = TOLERANCES[dtype]
    head = make(sampler=sampler, use_bias=use_bias, dtype=dtype)
    inputs, labels = make_data(head.compute_dtype)
    sampled = head._draws.draw(5, 0)
    labels[:3] = sampled[0], sampled[4], labels[5]
    actual = losses_and_gradients(head, inputs, labels)
    assert actual[0].dtype == head.loss_dtype
    compare(actual, of_tensorflow(head, inputs, labels, sampled), tolerance)
    _, (_, *slices) = actual
    for each in slices:
        assert isinstance(each, tf.IndexedSlices)
        np.testing.assert_array_equal(each.indices, np.union1d(labels, sampled))
    # The next step has another draw.
    again, _ = losses_and_gradients(head, inputs, labels)
    other = of_tensorflow(head, inputs, labels, head._draws.draw(5, 1))[0]
    compare(again, other, tolerance)
    assert np.any(np.abs(again - actual[0]) > 1e-3)
    assert head.step.numpy() == 2


@pytest.mark.parametrize("wrap", [lambda f: f, tf.function])
def test_without_a_tape_it_is_the_full_softmax(wrap):
    head = make(3)
    inputs, labels = make_data()
    losses = wrap(head.label_losses)(labels, inputs)
    assert head.step.numpy() == 0
    log_probs = head.log_prob(labels[:, np.newaxis], inputs)
    compare(losses, -log_probs[:, 0], 1e-5)


@pytest.mark.parametrize("in_function", [False, True])
def test_a_recomputed_forward_has_the_same_draw(in_function):
    """Losses, gradients and the number of draws, over two steps."""
    inputs, labels = make_data()
    inputs = tf.Variable(inputs)
    found = []
    for wrap in (lambda call: call, tf.recompute_grad):
        head = make()

        def step(head=head, wrap=wrap):
            call = wrap(lambda x: head(x, labels))
            with tf.GradientTape() as tape:
                loss = tf.reduce_mean(call(tf.identity(inputs)))
            return loss, tape.gradient(loss, inputs)

        step = tf.function(step) if in_function else step
        found.append([*step(), *step(), head.step])
    for plain, recomputed in zip(*found, strict=True):
        np.testing.assert_allclose(plain, recomputed, rtol=1e-6)
    assert found[0][-1].numpy() == 2
    assert abs(found[0][0] - found[0][2]) > 1e-3


@pytest.mark.parametrize("in_function", [False, True])
def test_labels_that_do_not_count(in_function):
    """They may be anything, cost nothing and touch nothing."""
    head = make(ignore_class=-1)
    inputs, labels = make_data()
    labels[2:5] = -1
    mask = np.arange(BATCH) != 7
    labels[7] = 10**6
    inputs = inputs.numpy()
    inputs[[3, 7]] = np.nan

    def run(inputs, labels, mask=None):
        with tf.GradientTape() as tape:
            losses = head(inputs, labels, inputs_mask=mask)
        return losses, tape.gradient(losses, head.kernel.value)

    run_either = tf.function(run) if in_function else run
    losses, gradient = run_either(
        tf.constant(inputs), tf.constant(labels), tf.constant(mask)
    )
    counted = mask & (labels != -1)
    assert not np.any(losses.numpy()[~counted])
    head.step.assign(0)
    expected, touched = run(inputs[counted], labels[counted])
    np.testing.assert_allclose(losses.numpy()[counted], expected, rtol=1e-6)
    np.testing.assert_array_equal(gradient.indices, touched.indices)
    np.testing.assert_allclose(gradient.values, touched.values, rtol=1e-5)
    # None of them counts, and there are none.
    losses, gradient = run(inputs, np.full(BATCH, -1))
    assert not np.any(losses) and not np.any(gradient.values)
    assert run(inputs[:0], labels[:0])[0].shape == (0,)


def test_wrong_inputs():
    head, (inputs, labels) = make(), make_data()
    with pytest.raises(
        ValueError, match=r"of shape \(13, 4\), must be the hidden"
    ):
        sampled_losses(head, np.zeros([BATCH, 4], "f4"), labels)
    with pytest.raises(tf.errors.InvalidArgumentError, match="labels"):
        sampled_losses(head, inputs, labels + N)
    # A step that failed has drawn nothing.
    assert head.step.numpy() == 0
    losses = sampled_losses(head, inputs * np.nan, labels)
    assert np.all(np.isnan(losses))


@pytest.mark.parametrize("count", [BATCH - 1, BATCH + 1])
def test_as_many_labels_as_inputs(count):
    """Where a graph knows neither number."""
    head, (inputs, labels) = make(), make_data()
    unknown = tf.TensorSpec([None, WIDTH]), tf.TensorSpec([None], tf.int64)
    losses = tf.function(
        lambda x, y: sampled_losses(head, x, y), input_signature=unknown
    )
    assert losses(inputs, labels.astype(np.int64)).shape == [BATCH]
    with pytest.raises(tf.errors.InvalidArgumentError, match="the shape of"):
        losses(inputs, np.resize(labels, count).astype(np.int64))
