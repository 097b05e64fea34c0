"""What files and checkpoints have of a head."""

from tf_hsm.runtime import row_order


class SavedRows:
    """To be named before Keras' `Layer` among the bases of a head.

    What its rows stand for is saved beside them, and they are loaded into no
    head whose rows stand for other classes.
    """

    def __init__(self, *args, **kwargs):
        """Takes the arguments of Keras' `Layer`."""
        super().__init__(*args, **kwargs)
        # For tf.train.Checkpoint.
        self._row_order = row_order.RowOrder(
            self.part_order_arrays, self._other_order()
        )

    def row_order_arrays(self):
        """What says which classes the rows of the weights stand for, a list.

        None where it is not known yet.
        """
        return []

    def part_order_arrays(self):
        """Likewise of the variables, which may be parts of the weights."""
        return self.row_order_arrays()

    def check_row_order(self):
        """Raises a ValueError where a checkpoint was read of another order."""
        self._row_order.check()

    def _other_order(self):
        return (
            f"{self.name}: what was saved is of a head with another tree, and "
            "its weights would stand for other classes here; make the head "
            "with that tree, or load the whole model, which has it"
        )

    def save_own_variables(self, store):
        """Writes the variables and what their rows stand for; see Keras."""
        self.write_variables(store)
        arrays = self.row_order_arrays()
        if arrays:
            row_order.save(arrays, store)

    def load_own_variables(self, store):
        """Reads what `save_own_variables` wrote; see Keras.

        Raises:
          ValueError: it wrote that for another tree, or other shapes.
        """
        arrays = self.row_order_arrays()
        self.read_variables(
            row_order.checked(arrays, store, self._other_order())
        )

    def write_variables(self, store):
        """Writes the variables."""
        super().save_own_variables(store)

    def read_variables(self, store):
        """Reads the variables."""
        super().load_own_variables(store)

    def add_to_checkpoints(self, variables):
        """Lets a `tf.train.Checkpoint` have variables that are in lists.

        It sees a layer's attributes, but no list of Keras'. None are passed by.
        """
        for variable in variables:
            if variable is not None:
                setattr(self, f"_{variable.name}", variable)
