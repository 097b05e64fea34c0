"""Steps whose inputs are rows of a variable, on problems without inputs."""

import numpy as np
import tensorflow as tf

from tf_hsm import hierarchical_softmax_embedding_train_step as train_step

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
