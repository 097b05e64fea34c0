"""A step in place follows the gradient that is asked for.

A head with an optimizer of its own is compared with the same head that the
optimizer of the model trains, by plain SGD.
"""

import functools

import keras
import numpy as np
import pytest
import tensorflow as tf

import tf_hsm
from tests.support.training import assert_near, assert_same

N, WIDTH, RATE = 60, 5, 0.5
TREE = tf_hsm.Tree.balanced(N, [4, 3, 5])
RNG = np.random.default_rng(0)
IDS = RNG.integers(1, N, (48, 7))
IDS[:, 5:] = 0  # which the Embedding masks
LABELS = (3 * IDS + 1) % N


def sgd(**options):
    """An optimizer whose steps add up, so that all ways must agree."""
    return tf_hsm.optimizers.SGD(RATE, **options)


def hierarchical(own, **options):
    """A head on a tree of three levels."""
    return tf_hsm.layers.HierarchicalSoftmax(TREE, optimizer=own, **options)


def model_of(head, frozen=False):
    """A model with masks, whose body may be frozen."""
    body = [
        keras.layers.Embedding(N, WIDTH, mask_zero=True),
        keras.layers.Dense(WIDTH, "tanh"),
    ]
    for layer in body:
        layer.trainable = not frozen
    return keras.Sequential([*body, head])


@functools.cache
def fitted(optimizer=sgd, frozen=False):
    """Returns the losses of two epochs and the weights after them."""
    keras.utils.set_random_seed(0)
    head = hierarchical(sgd())
    model = model_of(head, frozen)
    model.compile(optimizer(), head.loss)
    history = model.fit(IDS, LABELS, 16, epochs=2, verbose=0, shuffle=False)
    rows = [v.numpy() for v in head.row_variables()]
    losses = np.array(history.history["loss"])
    return [losses, model.layers[0].embeddings.numpy(), *rows]


@pytest.mark.parametrize("clip", ["clipvalue", "clipnorm", "global_clipnorm"])
def test_clipping_is_for_the_body(clip):
    """A limit that nothing reaches changes nothing; the head has no limit."""
    assert_near(fitted(lambda: sgd(**{clip: 1e9})), fitted(), 1e-5)
    found = fitted(lambda: sgd(**{clip: 1e-9}))
    assert_near(found[2:], fitted(frozen=True)[2:], 1e-5)


@pytest.mark.parametrize(
    "scaled",
    [
        lambda: sgd(loss_scale_factor=1024.0),
        lambda: tf_hsm.optimizers.LossScaleOptimizer(
            sgd(), initial_scale=1024.0
        ),
    ],
)
def test_loss_scaling_is_divided_out(scaled):
    """A scale that is a power of two leaves every bit of the head."""
    assert_same(fitted(scaled), fitted())


def scaled_head():
    """A head with hidden vectors and labels, after a `fit` of scaled losses."""
    keras.utils.set_random_seed(0)
    head = hierarchical(sgd())
    model = keras.Sequential([head], name="whole")
    optimizer = tf_hsm.optimizers.LossScaleOptimizer(sgd(), initial_scale=64.0)
    model.compile(optimizer, head.loss)
    hidden, labels = tf.random.normal([9, WIDTH]), tf.range(9) * 5
    model.fit(hidden, labels, verbose=0)
    return model, head, hidden, labels


@pytest.mark.parametrize("is_graph", [False, True])
@pytest.mark.parametrize("called", ["nothing", "layer", "model"])
def test_losses_after_a_fit_that_scaled(called, is_graph):
    """A loop is told to say by what its losses are scaled."""
    model, head, hidden, labels = scaled_head()
    before = [head.kernel.numpy(), head.bias.numpy()]
    scale = model.optimizer.scale_loss if called == "model" else tf.identity

    def step():
        with tf.GradientTape() as tape:
            tape.watch(hidden)
            if called == "layer":
                head(hidden)
            elif called == "model":
                model(hidden)
            total = scale(tf.reduce_sum(losses_of(labels, hidden)))
        tape.gradient(total, hidden, unconnected_gradients="zero")

    losses_of = head.label_losses
    if is_graph:
        step, losses_of = tf.function(step), tf.function(losses_of)
    if called == "nothing":
        with pytest.raises(ValueError, match="'whole', whose optimizer scales"):
            step()
        np.testing.assert_array_equal(head.kernel, before[0])
        return
    step()
    plain = hierarchical(None)
    plain(hidden)
    plain.set_weights(before)
    moved = rows_after(
        plain,
        lambda x: tf.reduce_sum(plain.label_losses(labels, x)),
        hidden,
    )
    np.testing.assert_allclose(head.kernel, moved[1], atol=1e-6)


def made(own=True, **options):
    """Returns a built head, hidden vectors and labels."""
    keras.utils.set_random_seed(1)
    head = hierarchical(sgd() if own else None, **options)
    hidden = tf.random.stateless_normal([9, WIDTH], [1, 2])
    head(hidden)
    return head, hidden, tf.range(9) * 5


def rows_after(head, total_of, hidden):
    """Returns the head's rows and dx after one gradient of a total."""
    with tf.GradientTape() as tape:
        tape.watch(hidden)
        total = total_of(hidden)
    sources = [hidden]
    if head.optimizer is None:
        sources += head.row_variables()
    dx, *slopes = tape.gradient(total, sources)
    if slopes:
        optimizer = sgd()
        optimizer.build(head.row_variables())
        optimizer.apply(slopes, head.row_variables())
    return [dx.numpy(), *(v.numpy() for v in head.row_variables())]


def test_no_gradient_no_step():
    """Losses, an evaluation and a dropped tape move nothing."""
    head, hidden, labels = made()
    before = [v.numpy() for v in head.variables]
    head.loss(labels, hidden)
    with tf.GradientTape():
        head.loss(labels, hidden)
    head(hidden, labels)
    tf.function(lambda: head.loss(labels, hidden))()
    assert_same(head.variables, before)


def test_a_gradient_is_a_step_and_counts_once():
    """A persistent tape that is asked twice makes two steps."""
    head, hidden, labels = made()
    with tf.GradientTape(persistent=True) as tape:
        tape.watch(hidden)
        loss = head.loss(labels, hidden)
    for count in (1, 2):
        tape.gradient(loss, hidden)
        assert int(head.optimizer.iterations) == count


@pytest.mark.parametrize("is_graph", [False, True])
def test_recompute_grad(is_graph):
    """Body and head within `tf.recompute_grad` make one step."""
    wanted = made()
    dense = keras.layers.Dense(WIDTH)
    inputs = tf.random.stateless_normal([9, 3], [3, 4])
    dense(inputs)

    def step(head, labels, wrap):
        def total(inputs):
            return head.loss(labels, head(dense(inputs)))

        def run():
            with tf.GradientTape() as tape:
                loss = wrap(total)(inputs)
            return tape.gradient(loss, dense.trainable_variables)

        grads = (tf.function(run) if is_graph else run)()
        return [*grads, *(v.numpy() for v in head.row_variables())]

    found = made()
    plain = step(wanted[0], wanted[2], lambda f: f)
    again = step(found[0], wanted[2], tf.recompute_grad)
    assert_near(again, plain, 1e-7)
    assert int(found[0].optimizer.iterations) == 1


@pytest.mark.parametrize("width", [WIDTH, 80])
@pytest.mark.parametrize("is_graph", [False, True])
def test_two_calls_in_a_step(width, is_graph):
    """Each call makes a step; the second one is at the rows that have moved.

    The gradients of the inputs are at the rows before the steps.
    """
    tree = tf_hsm.Tree.two_level(400)
    keras.utils.set_random_seed(1)
    inputs = [tf.random.stateless_normal([30, width], [i, 2]) for i in (1, 2)]
    labels = [tf.constant(RNG.integers(0, 400, 30)) for _ in inputs]

    def made_head(own):
        keras.utils.set_random_seed(2)
        head = tf_hsm.layers.HierarchicalSoftmax(
            tree, optimizer=sgd() if own else None
        )
        head(inputs[0])
        return head

    head = made_head(True)

    def gradients_of(head):
        with tf.GradientTape() as tape:
            tape.watch(inputs)
            losses = [
                head.loss(y, x) for x, y in zip(inputs, labels, strict=True)
            ]
            total = tf.add_n(losses)
        return tape.gradient(total, inputs)

    run = tf.function(gradients_of) if is_graph else gradients_of
    assert_near(run(head), gradients_of(made_head(False)), 1e-6)
    assert int(head.optimizer.iterations) == 2

    def rows_by_steps(order):
        other, optimizer = made_head(False), sgd()
        rows = other.row_variables()
        optimizer.build(rows)
        for i in order:
            with tf.GradientTape() as tape:
                loss = other.loss(labels[i], inputs[i])
            optimizer.apply(tape.gradient(loss, rows), rows)
        return [v.numpy() for v in rows]

    found = [v.numpy() for v in head.row_variables()]
    # Tapes choose the order.
    wanted = min(
        (rows_by_steps(order) for order in ([0, 1], [1, 0])),
        key=lambda rows: np.abs(rows[0] - found[0]).max(),
    )
    assert_near(found, wanted, 1e-6)
