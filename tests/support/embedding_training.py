"""Steps whose inputs are rows of a variable, on problems without inputs."""

import numpy as np
import tensorflow as tf

from tests.support import training
from tests.support.update_rules import built
from tf_hsm import hierarchical_softmax_embedding_train_step as train_step
from tf_hsm import hierarchical_softmax_loss

COUNT = 29  # of vectors


def draw_indices(batch, seed=0, count=COUNT):
    """Some rows many times, some once, some never."""
    rng = np.random.default_rng(seed)
    return (count * rng.random(batch) ** 3).astype(np.int64)


def draw_vectors(width, dtype=np.float32, count=COUNT):
    """As large as the inputs of `oracle.random_problem`."""
    rng = np.random.default_rng(0)
    return (rng.normal(size=(count, width)) / np.sqrt(width)).astype(dtype)


def variables_of(problem, dtype=np.float32, has_biases=True, count=COUNT):
    """Weights, biases or None, and vectors."""
    return [
        tf.Variable(problem.weights.astype(dtype)),
        tf.Variable(problem.biases.astype(dtype)) if has_biases else None,
        tf.Variable(draw_vectors(problem.weights.shape[1], dtype, count)),
    ]


def step(variables, problem, indices, tree, optimizer, **options):
    """Makes a step for the sum of upstream * losses; returns the losses."""
    w, b, vectors = variables
    options = {"loss_weights": problem.upstream, **options}
    return train_step(
        w, b, problem.labels, vectors, indices, tree, optimizer, **options
    )


def check_as_in_two(tree, problem, **options):
    """Asserts that a step by SGD equals the loss, then the optimizer.

    Each example has a vector of its own: its row of `problem.inputs`.

    Args:
        tree: A `tf_hsm.Tree`.
        problem: An `oracle.Problem`.
        **options: Options that the loss op takes too.
    """
    problem = problem.replace(upstream=np.ones_like(problem.upstream))
    indices = np.arange(len(problem.inputs))
    ways = []
    for in_one in (True, False):
        vectors = tf.Variable(problem.inputs)
        w, b = training.variables_of(problem)
        variables = [w, b, vectors]
        optimizer = built("sgd", variables)
        if in_one:
            losses = step(
                variables, problem, indices, tree, optimizer, **options
            )
        else:
            with tf.GradientTape() as tape:
                losses = hierarchical_softmax_loss(
                    w, b, problem.labels, tf.identity(vectors), tree, **options
                )
            gradients = tape.gradient(losses, variables)
            optimizer.apply(gradients, variables)
        ways.append([losses.numpy(), *(v.numpy() for v in variables)])
    training.assert_near(*ways, 1e-5)
