"""The focal loss (1 - p)^gamma l of losses l = -log p, and its derivative.

Lin et al., 2017: Focal Loss for Dense Object Detection. Both are exact for
small and large l, and finite at 0; the derivative is 1 at infinity.
"""

import tensorflow as tf


def values(losses, slopes, gamma):
    """The focal losses `[...]`, whose gradient is said to be `slopes`."""

    @tf.custom_gradient
    def focal(losses, slopes):
        focal_losses = _factors(losses, gamma) * losses
        return focal_losses, lambda gradient: (gradient * slopes, None)

    return focal(losses, tf.stop_gradient(slopes))


def slopes(losses, gamma):
    """The derivatives `[...]` of the focal losses by the losses."""
    # l p / (1 - p). Where l is 0, the factor is too, unless gamma is; where it
    # is so large that p is 0, its size does not matter, unless it is infinite.
    finite = tf.minimum(losses, 1e4)
    ratio = tf.math.divide_no_nan(
        finite * tf.exp(-finite), -tf.math.expm1(-finite)
    )
    return _factors(losses, gamma) * (1 + gamma * ratio)


def _factors(losses, gamma):
    # Rounding may take a loss below 0.
    return tf.pow(-tf.math.expm1(-tf.maximum(losses, 0)), gamma)
