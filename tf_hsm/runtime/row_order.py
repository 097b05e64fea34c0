"""Which classes the rows of a head stand for, saved beside its weights.

Another tree may have weights of the same shapes: every binary tree of N classes
has 2 N - 2 rows.
"""

import hashlib

import numpy as np
import tensorflow as tf

# The name among the variables of a layer in a file of Keras.
_KEY = "row_order"


class RowOrder(tf.train.experimental.PythonState):
    """What a `tf.train.Checkpoint` has of it, and checks when it is restored.

    Args:
      find: returns the arrays that the order depends on, a list; None where
        they are not known yet, and `check` is to be called later.
      message: of the ValueError where the order was another.
    """

    def __init__(self, find, message):
        """See the class."""
        super().__init__()
        self._find = find
        self._message = message
        self._read = ""

    def serialize(self):
        """The text that is saved."""
        arrays = self._find()
        return "" if arrays is None else _digest(arrays).hex()

    def deserialize(self, string_value):
        """Checks the text that is read."""
        self._read = tf.compat.as_str(string_value)
        self.check()

    def check(self):
        """Raises a ValueError where what was read is of another order."""
        own = self.serialize()
        if self._read and own and self._read != own:
            raise ValueError(self._message)


def save(arrays, store):
    """Writes the order of rows, by its arrays, to Keras' `store`."""
    store[_KEY] = np.frombuffer(_digest(arrays), np.uint8)


def checked(arrays, store, message):
    """Returns what else Keras' `store` has, a dict.

    Raises:
      ValueError: the order was another; with this message.
    """
    keys = store.keys()
    own = None if arrays is None else _digest(arrays)
    if own and _KEY in keys and bytes(np.asarray(store[_KEY])) != own:
        raise ValueError(message)
    return {key: store[key] for key in keys if key != _KEY}


def arrays_of(trees):
    """The arrays that the order of the rows of trees depends on, a list."""
    return [
        array
        for tree in trees
        for array in (
            tree.group_offsets,
            tree.group_parents,
            tree.class_rows,
            np.array([tree.pinned]),
        )
    ]


def _digest(arrays):
    found = hashlib.blake2b(digest_size=16)
    for array in arrays:
        found.update(str(array.shape).encode())
        found.update(array)
    return found.digest()
