"""What label trees must do, at a place where their kernels run."""

import functools

import ml_dtypes
import numpy as np
import pytest
import tensorflow as tf

import tf_hsm
from tests.support import label_tree_reference as reference
from tests.support import trees
from tests.support.places import HERE
from tests.support.training import assert_near, kept_loss, states, step_from
from tests.support.update_rules import built

DTYPES = [np.float64, np.float32, ml_dtypes.bfloat16, np.float16]
# What the values below are right to, with a width of 7.
TOLERANCES = dict(zip(DTYPES, (1e-12, 1e-5, 2e-2, 3e-3), strict=True))
WIDTH = 7


def random_parameters(tree, dtype=np.float64, batch=9, seed=0):
    """Weights, biases and inputs."""
    rng = np.random.default_rng(seed)
    return [
        rng.normal(size=shape).astype(dtype)
        for shape in [(tree.num_rows, WIDTH), tree.num_rows, (batch, WIDTH)]
    ]


def random_labels(tree, batch=9, most=6, seed=0):
    """Lists of labels, some of them twice; the first is empty."""
    rng = np.random.default_rng(seed)
    return [
        rng.integers(tree.num_classes, size=min(i, most)).tolist()
        for i in range(batch)
    ]


def padded(labels, padding=-1):
    full = np.full([len(labels), max(map(len, labels))], padding)
    for row, its in zip(full, labels, strict=True):
        row[: len(its)] = its
    return full


def at(place, parameters, make=tf.Variable):
    """Weights, biases or None, and inputs, on the device."""
    with tf.device(place.device):
        weights, biases = [
            None if p is None else make(p) for p in parameters[:2]
        ]
        return weights, biases, tf.constant(parameters[2])


def gradients(
    parameters,
    labels,
    tree,
    upstream,
    make=tf.Variable,
    place=HERE,
    graph=False,
):
    """Losses, and the gradients of the weights, the biases and the inputs."""
    weights, biases, inputs = at(place, parameters, make)
    sources = [v for v in (weights, biases, inputs) if v is not None]

    def run():
        with tf.GradientTape() as tape:
            tape.watch(sources)
            losses = tf_hsm.label_tree_loss(
                weights, biases, labels, inputs, tree
            )
            total = tf.reduce_sum(losses * tf.cast(upstream, losses.dtype))
        return losses, *tape.gradient(total, sources)

    return place.run(run, graph)


def check_near(found, expected, dtype, place):
    """Values that differ by roundings of tensor cores at most, if any."""
    tolerance = TOLERANCES[dtype]
    tf32 = tf.config.experimental.tensor_float_32_execution_enabled()
    if tf32 and dtype == np.float32 and place is not HERE:
        tolerance = 3e-3
    np.testing.assert_allclose(
        np.asarray(found, np.float64),
        expected,
        rtol=tolerance,
        atol=tolerance * max(1, np.abs(expected).max()),
    )


def check_loss(place, name, dtype, make=tf.Variable, graph=False):
    """The loss and all gradients.

    Args:
        place: A `Place`.
        name: A name of `trees.CATALOGUE`.
        dtype: The type of the weights and of the inputs.
        make: Makes the weights.
        graph: Whether to run in a `tf.function`.
    """
    tree = trees.CATALOGUE[name]()
    parameters = random_parameters(tree, dtype)
    labels = random_labels(tree)
    upstream = np.linspace(-1, 2, len(labels))
    found = gradients(
        parameters, padded(labels), tree, upstream, make, place, graph
    )
    wide = [np.asarray(p, np.float64) for p in parameters]
    losses, dx, dw, db, touched = reference.loss(
        *wide[:2], labels, wide[2], tree, upstream
    )
    # 16-bit weights are widened without rounding.
    check_near(found[0], losses, dtype, place)
    check_near(found[3], dx, dtype, place)
    for slices, dense in ((found[1], dw), (found[2], db)):
        np.testing.assert_array_equal(slices.indices, np.flatnonzero(touched))
        check_near(tf.convert_to_tensor(slices), dense, dtype, place)


def check_steps(place, rule, dtype):
    """In place, and from the state of a loss, as by the gradient.

    Args:
        place: A `Place`.
        rule: A name of `update_rules.OPTIMIZERS` or `update_rules.ON_GPUS`.
        dtype: The type of the weights.
    """
    tree = trees.CATALOGUE["huffman_4ary"]()
    start = random_parameters(tree, dtype)
    upstream = np.linspace(0.5, 1.5, 9).astype(dtype)

    def in_place(weights, biases, inputs, labels, optimizer):
        with tf.GradientTape() as tape:
            tape.watch(inputs)
            losses = tf_hsm.label_tree_train_step(
                weights,
                biases,
                labels,
                inputs,
                tree,
                optimizer,
                loss_weights=upstream,
            )
            total = tf.reduce_sum(upstream * losses)
        return losses, tape.gradient(total, inputs)

    def by_gradient(weights, biases, inputs, labels, optimizer):
        with tf.GradientTape() as tape:
            tape.watch(inputs)
            losses = tf_hsm.label_tree_loss(
                weights, biases, labels, inputs, tree
            )
            total = tf.reduce_sum(upstream * losses)
        *found, dx = tape.gradient(total, [weights, biases, inputs])
        optimizer.apply(found, [weights, biases])
        return losses, dx

    def from_state(weights, biases, inputs, labels, optimizer, moved=False):
        variables = [weights, biases]
        made = kept_loss(
            variables,
            labels,
            inputs,
            tree,
            label_sets=True,
            ignore_classes=[-1],
        )
        step_from(made.state, variables, upstream, optimizer, moved=moved)
        return made.loss, made.input_grads * upstream[:, np.newaxis]

    results = []
    # If weights have not moved, the loss made once more is the same.
    made_again = functools.partial(from_state, moved=True)
    for step in (in_place, by_gradient, from_state, made_again):
        weights, biases, inputs = at(place, start)
        with tf.device(place.device):
            optimizer = built(rule, [weights, biases])
        found = [
            place.run(
                functools.partial(
                    step,
                    weights,
                    biases,
                    inputs,
                    padded(random_labels(tree, seed=i)),
                    optimizer,
                )
            )
            for i in range(3)
        ]
        results.append([found, states(optimizer, [weights, biases])])
        assert int(optimizer.iterations) == 3
    for other in results[1:]:
        assert_near(results[0], other, 1e-10 if dtype == np.float64 else 1e-4)


def check_wrong_labels(place):
    """An error that names the label; nothing is updated."""
    tree = trees.CATALOGUE["random"]()
    start = random_parameters(tree, np.float32)
    weights, biases, inputs = at(place, start)
    labels = padded(random_labels(tree))
    labels[4, 2] = tree.num_classes
    with tf.device(place.device):
        optimizer = built("sgd", [weights, biases])
    message = rf"labels\[{4 * labels.shape[1] + 2}\] = {tree.num_classes}"
    for call in (
        lambda: tf_hsm.label_tree_loss(weights, biases, labels, inputs, tree),
        lambda: tf_hsm.label_tree_train_step(
            weights, biases, labels, inputs, tree, optimizer
        ),
    ):
        with pytest.raises(tf.errors.InvalidArgumentError, match=message):
            place.run(call)
    np.testing.assert_array_equal(weights, start[0])


def check_answers(place, name, dtype, make=tf.Variable):
    """The best labels and the probabilities of given ones.

    Args:
        place: A `Place`.
        name: A name of `trees.CATALOGUE`.
        dtype: The type of the weights; not float64 on a GPU.
        make: Makes the weights.
    """
    tree = trees.CATALOGUE[name]()
    parameters = random_parameters(tree, dtype)
    given = at(place, parameters, make)
    wide = [np.asarray(p, np.float64) for p in parameters]
    every = reference.label_log_probs(*wide, tree)
    classes = np.random.default_rng(0).integers(tree.num_classes, size=[9, 4])
    found = place.run(
        lambda: tf_hsm.label_tree_log_prob(*given[:2], classes, given[2], tree)
    )
    check_near(found, np.take_along_axis(every, classes, 1), dtype, place)
    k = min(5, tree.num_classes)
    best = -np.sort(-every, axis=1)[:, :k]
    found = place.run(lambda: tf_hsm.label_tree_top_k(*given, tree, k))
    check_near(found.log_probs, best, dtype, place)
    of_found = np.take_along_axis(every, found.classes.numpy(), 1)
    check_near(found.log_probs, of_found, dtype, place)
    threshold = np.exp(best[:, k // 2] - 0.05)
    found = place.run(
        lambda: tf_hsm.label_tree_top_k(*given, tree, k, threshold=threshold)
    )
    # Rounding may move one that is near the threshold.
    sure = abs(best - np.log(threshold)[:, np.newaxis]) > 0.03
    want = best > np.log(threshold)[:, np.newaxis]
    np.testing.assert_array_equal((found.classes >= 0)[sure], want[sure])
