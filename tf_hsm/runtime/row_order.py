"""The classes that the rows of a head stand for, saved with its weights.

Another tree may have weights of the same shapes: every binary tree of N classes
has 2 N - 2 rows.
"""

import hashlib

import numpy as np
import tensorflow as tf

# The name among the variables of a layer in a file of Keras.
_KEY = "row_order"


class RowOrder(tf.train.experimental.PythonState):
    """The record in a `tf.train.Checkpoint`, checked when it is restored.

    Args:
      find: returns what the order depends on, a list; None where that is not
        known yet, and `check` is to be called later.
      message: returns the text of the ValueError where the order was another.
    """

    def __init__(self, find, message):
        super().__init__()
        self._find = find
        self._message = message
        self._parts, self._own, self._read = [], "", ""

    def serialize(self):
        """The text that is saved."""
        parts = self._find()
        if parts is None:
            return ""
        # A digest takes long, so it is kept while the arrays are the same.
        if list(map(id, parts)) != list(map(id, self._parts)):
            self._parts, self._own = parts, _digest(parts).hex()
        return self._own

    def deserialize(self, string_value):
        """Checks the text that is read."""
        self._read = tf.compat.as_str(string_value)
        self.check()

    def check(self):
        """Raises a ValueError if the text that was read is of another order.

        Forgets the text if it is right: the rows may move later.
        """
        own = self._read and self.serialize()
        if not own:
            return
        if own != self._read:
            raise ValueError(self._message())
        self._read = ""


def save(parts, store):
    """Writes the order of rows, by what it depends on, to Keras' `store`."""
    store[_KEY] = np.frombuffer(_digest(parts), np.uint8)


def checked(parts, store, message):
    """Returns Keras' `store` without the order.

    Raises:
      ValueError: the order was another; with this message.
    """
    keys, own = store.keys(), None if parts is None else _digest(parts)
    if own and _KEY in keys and bytes(np.asarray(store[_KEY])) != own:
        raise ValueError(message)
    return _Others(store)


class _Others:
    """The entries of a store but the order, read when they are asked for."""

    def __init__(self, store):
        self._store = store

    def keys(self):
        keys = self._store.keys()  # Keras' stores cannot be iterated over.
        return [key for key in keys if key != _KEY]

    def __getitem__(self, key):
        return self._store[key]


def parts_of(tree, cuts=()):
    """Lists what the order of a tree's rows depends on.

    Args:
      tree: a `Tree`.
      cuts: arrays that say where it is cut.
    """
    arrays = [tree.group_offsets, tree.group_parents, tree.class_rows, *cuts]
    return [*arrays, b"pinned"] if tree.pinned else arrays


def _digest(parts):
    found = hashlib.blake2b(digest_size=16)
    for part in parts:
        found.update(part)
    return found.digest()
