"""The devices of the tails of an adaptive softmax."""

import contextlib

import tensorflow as tf

from tf_hsm.distribute.devices import check_devices
from tf_hsm.runtime import row_parts


class TailDevices:
    """To be named before `HeadLayer` among the bases of `AdaptiveSoftmax`.

    A tail's rows, its projection and the products with it are on its device.

    Args:
      *args: of `HeadLayer`.
      devices: a list of names of devices; or None, for that of the model.
      **kwargs: of `HeadLayer`.
    """

    def __init__(self, *args, devices=None, **kwargs):
        """See the class."""
        super().__init__(*args, **kwargs)
        self.devices = None if devices is None else check_devices(devices)

    @contextlib.contextmanager
    def on_one_device(self):
        """Within, the products with tails are made on the default device."""
        own, self.devices = self.devices, None
        try:
            yield
        finally:
            self.devices = own

    def device_of(self, number):
        """The name of the device of tail `number`, or None."""
        return self.devices and self.devices[number % len(self.devices)]

    def place_tail(self, number, *variables):
        """Notes on the variables of a tail, or None, where they are."""
        for variable in variables:
            if variable is not None:
                row_parts.place(variable, self.device_of(number))

    def project(self, number, inputs):
        """Takes inputs `[..., width]` to those of a tail, `[..., its width]`.

        The products are made in float32, of float64 weights in float64.
        """
        projection = self.projections[number]
        if projection is None:
            return inputs
        dtype = tf.as_dtype(self.loss_dtype)
        device = self.device_of(number)
        product = tf.matmul if device is None else _matmul_on(device)
        with row_parts.on(device):
            return product(
                tf.cast(inputs, dtype), tf.cast(projection.value, dtype)
            )

    def get_config(self):
        """Returns the arguments of the constructor."""
        devices = self.devices and list(self.devices)
        return {**super().get_config(), "devices": devices}


def _matmul_on(device):
    """A product whose gradients are made on a device, as it is itself.

    Else TensorFlow may send the matrix to where the gradient is asked for.
    """

    @tf.custom_gradient
    def product(x, matrix):
        def gradient(grads):
            with tf.device(device):
                return (
                    tf.matmul(grads, matrix, transpose_b=True),
                    tf.matmul(x, grads, transpose_a=True),
                )

        return tf.matmul(x, matrix), gradient

    return product
