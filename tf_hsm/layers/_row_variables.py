"""The variables of a head: all rows in one, or a part on each device."""

from tf_hsm.layers._head_layer import prior_initializer
from tf_hsm.layers._initial_values import by_blocks, of_pairs, of_part
from tf_hsm.runtime import row_parts


class RowVariables:
    """Makes the weights and the biases of the rows of a tree.

    Args:
      layer: the layer.
      width: D.
      prior: `[rows]`, as in `tree.num_weight_rows`, with which the biases
        begin; or None, for the layer's `bias_initializer`.

    Those of a pinned tree begin as differences of two rows do.
    """

    def __init__(self, layer, width, prior):
        """See the class."""
        self._layer = layer
        self._width = width
        self._prior = prior
        tree = layer.tree
        self._num_rows = tree.num_weight_rows
        self._initializer = layer.kernel_initializer
        if tree.pinned:
            self._initializer = of_pairs(
                self._initializer, tree.num_groups, width
            )

    def whole(self):
        """Returns weights `[rows, D]`, and biases `[rows]` or None."""
        return self._add("", self._initializer, self._num_rows, slice(None))

    def part(self, number, rows, device=None):
        """Returns those of some of the rows, `[n]`, on a device.

        Without one they are where the body's variables are made at that time.
        The parts have other values than each other, of the scale of the whole.
        """
        initializer = of_part(
            self._initializer, rows.size, self._width, self._num_rows, number
        )
        with row_parts.on(device):
            pair = self._add(f"part_{number}_", initializer, rows.size, rows)
        for name, variable in zip(("kernel", "bias"), pair, strict=True):
            if variable is not None:
                row_parts.mark(
                    variable,
                    row_parts.RowPart(
                        (id(self._layer), name), rows, self._num_rows
                    ),
                )
                row_parts.place(variable, device)
        return pair

    def _add(self, prefix, initializer, num_rows, rows):
        layer = self._layer
        # Without autocast: a cast would copy all classes' weights.
        options = {"trainable": layer.optimizer is None, "autocast": False}
        kernel = layer.add_weight(
            name=f"{prefix}kernel",
            shape=(num_rows, self._width),
            initializer=by_blocks(initializer),
            constraint=layer.kernel_constraint,
            **options,
        )
        if not layer.use_bias:
            return kernel, None
        bias = layer.add_weight(
            name=f"{prefix}bias",
            shape=(num_rows,),
            initializer=prior_initializer(
                None if self._prior is None else self._prior[rows],
                layer.bias_initializer,
            ),
            constraint=layer.bias_constraint,
            **options,
        )
        return kernel, bias
