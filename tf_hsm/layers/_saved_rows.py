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
            self.variable_order, self.other_variables
        )

    def row_order(self):
        """What says which classes the rows of the weights stand for, a list.

        None where it is not known yet.
        """
        return []

    def variable_order(self):
        """Likewise of the variables, which may be parts of the weights."""
        return self.row_order()

    def other_order(self):
        """What is said of a file of Keras with another order."""
        return (
            f"{self.name}: what was saved is of a head with another tree, and "
            "its weights would stand for other classes here; make the head "
            "with that tree, or load the whole model, which has it"
        )

    def other_variables(self):
        """What is said of a `tf.train.Checkpoint` with another order."""
        return self.other_order()

    def add_weight(self, *args, **kwargs):
        """Makes a variable, as Keras does.

        Raises:
          ValueError: a checkpoint was restored, whose values it would get and
            whose rows stand for other classes.
        """
        self._row_order.check()
        return super().add_weight(*args, **kwargs)

    def save_own_variables(self, store):
        """Writes the variables and what their rows stand for; see Keras."""
        self.write_variables(store)
        order = self.row_order()
        if order:
            row_order.save(order, store)

    def load_own_variables(self, store):
        """Reads what `save_own_variables` wrote; see Keras.

        Raises:
          ValueError: it wrote that for another tree, or other shapes.
        """
        self.read_variables(
            row_order.checked(self.row_order(), store, self.other_order())
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
