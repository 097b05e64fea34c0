"""Vectors of classes of a SampledSoftmax: rows of its kernel."""

import numpy as np
import pytest
import tensorflow as tf

from tests.support.models import NUM_CLASSES, WIDTH, sampled_head


def test_embed():
    """Rows of the kernel in any shape, whose gradient has these rows alone."""
    head = sampled_head()
    with pytest.raises(ValueError, match="has no weights yet"):
        head.embed([0])
    head.build([None, WIDTH])
    for classes in np.array([[8, 3, 3], [29, 0, 8]]), np.zeros([2, 0], int), 7:
        with tf.GradientTape() as tape:
            vectors = head.embed(classes)
        np.testing.assert_array_equal(vectors, head.kernel.numpy()[classes])
        gradient = tape.gradient(vectors, head.kernel.value)
        np.testing.assert_array_equal(gradient.indices, np.ravel(classes))
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"classes\[1\] ="):
        head.embed([3, NUM_CLASSES])
    with pytest.raises(TypeError, match="classes"):
        head.embed([1.0])
