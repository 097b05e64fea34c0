"""Two recurrent cells of one's own, for --cell.

bazel run //:train -- --cell=examples.language_model.cells:Elman
bazel run //:train -- --cell=examples.language_model.cells:SCRNN

A cell is a Keras layer that `keras.layers.RNN` can wrap: it has `state_size`
and `call(inputs, states)`, which returns outputs and new states. Its class
takes the width of its outputs, and is registered, so that it can be saved.
"""

import keras
from keras import ops


@keras.saving.register_keras_serializable("language_model")
class Elman(keras.layers.Layer):
    """The simple recurrent network: h' = sigmoid(A x + R h).

    Elman, "Finding structure in time", 1990.
    """

    def __init__(self, units, **kwargs):
        """Makes a cell of `units` hidden units."""
        super().__init__(**kwargs)
        self.units = self.state_size = units

    def build(self, input_shape):
        """Makes `[A; R] [D + units, units]`."""
        rows = input_shape[-1] + self.units
        self.kernel = self.add_weight((rows, self.units), name="kernel")

    def call(self, inputs, states):
        """Returns h' and the states [h']."""
        h = ops.concatenate([inputs, *states], axis=-1) @ self.kernel
        h = ops.sigmoid(h)
        return h, [h]


@keras.saving.register_keras_serializable("language_model")
class SCRNN(Elman):
    """An Elman network beside context units, which change slowly.

        s' = (1 - 0.95) B x + 0.95 s
        h' = sigmoid(P s' + A x + R h)

    Both are outputs; a fifth of the units is context. Mikolov et al., "Learning
    longer memory in recurrent neural networks", arXiv:1412.7753, 2014.
    """

    def __init__(self, units, **kwargs):
        """Makes a cell of `units` hidden and context units together."""
        super().__init__(units, **kwargs)
        self.output_size = units
        self.state_size = [units - units // 5, units // 5]

    def build(self, input_shape):
        """Makes `B [D, context]` and `[P; A; R]`, as wide as h."""
        (hidden, context), width = self.state_size, input_shape[-1]
        self.b = self.add_weight((width, context), name="b")
        self.kernel = self.add_weight(
            (context + width + hidden, hidden), name="kernel"
        )

    def call(self, inputs, states):
        """Returns [h'; s'] and the states [h', s']."""
        h, s = states
        s = 0.05 * (inputs @ self.b) + 0.95 * s
        h = ops.sigmoid(ops.concatenate([s, inputs, h], axis=-1) @ self.kernel)
        return ops.concatenate([h, s], axis=-1), [h, s]
