"""The variables of a head's rows."""

import dataclasses
import typing

import keras
import tensorflow as tf

from tf_hsm.layers import quantized
from tf_hsm.layers.initial_values import (
    by_blocks,
    of_number,
    of_pairs,
    of_part,
)
from tf_hsm.runtime import row_parts


@dataclasses.dataclass(eq=False)
class RowSpec:
    """The options of the weights and the biases of rows.

    The kernel of a pinned tree begins as differences of two rows do.

    Attributes:
      use_bias: whether each row has a bias.
      kernel_initializer: for the weights `[rows, width]`.
      bias_initializer: for the biases `[rows]`, where no prior sets them.
    """

    use_bias: typing.Any = True
    kernel_initializer: typing.Any = "glorot_uniform"
    bias_initializer: typing.Any = "zeros"

    def __post_init__(self):
        """Makes objects of names and configs."""
        get = keras.initializers.get
        self.kernel_initializer = get(self.kernel_initializer)
        self.bias_initializer = get(self.bias_initializer)

    def of_cluster(self, number, use_bias):
        """Returns the spec of a cluster, which draws numbers of its own.

        Args:
          number: the number of the cluster, or of another part of the rows.
          use_bias: whether each row of it has a bias.
        """
        return RowSpec(
            use_bias,
            of_number(self.kernel_initializer, number),
            of_number(self.bias_initializer, number),
        )

    def make(self, layer, tree, width, prior=None, prefix="", device=None):
        """Returns weights `[rows, width]`, and biases `[rows]` or None.

        Args:
          layer: the layer, which gets the variables.
          tree: the tree; rows as in `tree.num_weight_rows`.
          width: of a row.
          prior: `[rows]`, with which the biases begin; or None.
          prefix: of the variables' names.
          device: the name of the device of the variables, in whose scope the
            caller is; or None.
        """
        shape = (tree.num_weight_rows, width)
        kernel = self._kernel_for(tree, width)
        return self._add(layer, prefix, kernel, shape, prior, device)

    def make_part(self, layer, number, tree, width, prior, rows, device=None):
        """Returns weights and biases of some of a tree's rows.

        The parts have other values than each other, of the scale of the whole.

        Args:
          layer: the layer, which gets the variables.
          number: the number of the part.
          tree: the whole tree.
          width: of a row.
          prior: `[rows]` for the whole tree, or None.
          rows: `[n]`, the rows of the weights that the part has.
          device: the name of the device of the variables; None for the device
            on which the body's variables are made at that time.
        """
        total = tree.num_weight_rows
        initializer = of_part(
            self._kernel_for(tree, width), rows.size, width, total, number
        )
        with row_parts.part_on(device):
            pair = self.of_cluster(number, self.use_bias)._add(
                layer,
                f"part_{number}_",
                initializer,
                (rows.size, width),
                None if prior is None else prior[rows],
                device,
            )
        for name, value in zip(("kernel", "bias"), pair, strict=True):
            if value is not None:
                part = row_parts.RowPart((id(layer), name), rows, total)
                quantized.place(value, row_parts.Placement(device, part))
        return pair

    def _kernel_for(self, tree, width):
        if tree.pinned:
            return of_pairs(self.kernel_initializer, tree.num_groups, width)
        return self.kernel_initializer

    def make_bias(self, layer, tree, prior=None):
        """Returns the biases `[rows]` alone, or None; see `make`."""
        return self._add_bias(layer, "", tree.num_weight_rows, prior)

    def _add(self, layer, prefix, kernel_initializer, shape, prior, device):
        if layer.quantization_mode is not None:
            name = f"{prefix}kernel"
            kernel = quantized.make_rows(layer, name, *shape, device)
            # Biases are beside codes, which are on a CPU.
            with row_parts.on(quantized.cpu_of(device)):
                bias = self._add_bias(layer, prefix, shape[0], prior)
            quantized.freeze(bias)
            return kernel, bias
        kernel = layer.add_weight(
            name=f"{prefix}kernel",
            shape=shape,
            initializer=by_blocks(kernel_initializer),
            constraint=layer.row_options.kernel_constraint,
            trainable=layer.optimizer is None,
            # With autocast, a call would copy the weights of all classes.
            autocast=False,
        )
        return kernel, self._add_bias(layer, prefix, shape[0], prior)

    def _add_bias(self, layer, prefix, num_rows, prior):
        if not self.use_bias:
            return None
        initializer = self.bias_initializer
        if prior is not None:

            def initializer(shape, dtype):
                return tf.cast(tf.reshape(prior, shape), dtype)

        return layer.add_weight(
            name=f"{prefix}bias",
            shape=(num_rows,),
            initializer=initializer,
            constraint=layer.row_options.bias_constraint,
            trainable=layer.optimizer is None,
            autocast=False,
        )

    def get_config(self):
        """Returns the options as JSON can hold them."""
        serialize = keras.initializers.serialize
        return {
            "use_bias": self.use_bias,
            "kernel_initializer": serialize(self.kernel_initializer),
            "bias_initializer": serialize(self.bias_initializer),
        }
