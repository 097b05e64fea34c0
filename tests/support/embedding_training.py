"""Steps whose inputs are rows of a variable, on problems without inputs."""

import numpy as np
import tensorflow as tf

from tests.support.training import COUNT, draw_vectors, looked_up


def variables_of(problem, dtype=np.float32, has_biases=True, count=COUNT):
    """Weights, biases or None, and vectors."""
    return [
        tf.Variable(problem.weights.astype(dtype)),
        tf.Variable(problem.biases.astype(dtype)) if has_biases else None,
        tf.Variable(draw_vectors(problem.weights.shape[1], dtype, count)),
    ]


def step(variables, problem, indices, tree, optimizer, **options):
    """Makes a step for the sum of upstream * losses; returns the losses."""
    return looked_up(
        variables, problem, tree, optimizer, indices=indices, **options
    )[0]
