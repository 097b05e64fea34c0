"""The classes that an answer may name: a mask of the classes."""

import dataclasses

import tensorflow as tf

from tf_hsm import _checks
from tf_hsm.runtime import arguments, label_sets
from tf_hsm.runtime.tree_tensors import cpu_of, mask_tensors


@dataclasses.dataclass(frozen=True)
class AllowedClasses:
    """Lists of classes: one for all inputs, or one for each.

    Attributes:
      lists: `[1, M]` (known when a graph is traced) or `[B, M]` int64, each
        ascending; the last numbers of a list, and one at least, are N, which is
        no class.
      num_classes: N.
    """

    lists: tf.Tensor
    num_classes: int

    @classmethod
    def read(cls, allowed, tree, inputs):
        """Reads what users pass as `allowed`, for inputs `[..., width]`.

        All that is asked of the tree is its `num_classes`.

        Raises:
          tf.errors.InvalidArgumentError (ValueError where a graph is traced):
            a class is out of range, a shape does not fit, or integers are a
            mask of 0 and 1.
          TypeError: they are neither integers nor booleans, or are sparse.
          ValueError: their rank is not known.
        """
        if not hasattr(tree, "num_classes"):
            _checks.check_is_tree(tree)
        size = tree.num_classes
        if isinstance(allowed, tf.RaggedTensor):
            allowed = arguments.padded_integers(allowed, "allowed")
        elif isinstance(allowed, list | tuple) and not allowed:
            allowed = tf.zeros([0], tf.int64)
        allowed = arguments.dense("allowed", allowed)
        if allowed.dtype == tf.bool:
            allowed = _classes_of_mask(allowed, size)
        classes = tf.cast(arguments.integers(allowed, "allowed"), tf.int64)
        if not classes.shape.rank:
            raise ValueError(
                "allowed must be a list of classes, or one for each input, but "
                f"has the shape {classes.shape}"
            )
        if classes.shape.rank > 1:
            tf.debugging.assert_equal(
                tf.shape(classes)[:-1],
                tf.shape(inputs)[:-1],
                "allowed must have the shape [M], of one list for all inputs, "
                "or that of inputs but for the last dimension, [..., M]",
            )
        classes = label_sets.not_multi_hot(
            classes,
            [size],
            "allowed",
            "booleans [num_classes] are a mask for all inputs, and "
            "tf_hsm.label_lists(allowed) makes lists of a matrix",
        )
        count = 1
        if classes.shape.rank > 1:
            count = tf.reduce_prod(tf.shape(classes)[:-1])
        classes = tf.reshape(
            _checked(classes, size), [count, tf.shape(classes)[-1]]
        )
        lists = tf.where(classes >= 0, classes, size)
        lists = tf.pad(lists, [[0, 0], [0, 1]], constant_values=size)
        return cls(_ascending(lists), size)

    def contain(self, classes):
        """Returns whether each of the classes `[..., C]` is allowed."""
        count = tf.shape(self.lists)[0]
        per_list = tf.reshape(
            tf.cast(classes, tf.int64),
            [count, tf.size(classes) // tf.maximum(count, 1)],
        )
        places = tf.raw_ops.LowerBound(
            sorted_inputs=self.lists, values=per_list
        )
        # Past the end for what is no class.
        places = tf.minimum(places, tf.shape(self.lists)[1] - 1)
        found = tf.gather(self.lists, places, batch_dims=1)
        return tf.reshape(tf.equal(found, per_list), tf.shape(classes))

    def log_probs(self, log_prob, num_inputs):
        """Returns the allowed ones among the classes in `lists`, of each input.

        Args:
          log_prob: from classes `[B, M]` to their log-probabilities.
          num_inputs: B.

        Returns:
          `[B, M]`; minus infinity for N, and for what a list has twice.
        """
        lists = self.lists
        before = tf.pad(lists[:, :-1], [[0, 0], [1, 0]], constant_values=-1)
        counts = (lists < self.num_classes) & (lists != before)
        # In place of those, what is scored anyway.
        first = lists[:, :1]
        instead = tf.where(first < self.num_classes, first, 0)
        classes = tf.where(counts, lists, instead)
        size = lists.shape[1]
        shape = [num_inputs, tf.shape(lists)[1] if size is None else size]
        log_probs = log_prob(tf.broadcast_to(classes, shape))
        return tf.where(counts, log_probs, -float("inf"))

    def search_arguments(self, tree, near):
        """The arguments of the op that searches a tree for its best classes."""
        class_ranks, row_spans = mask_tensors(tree, near)
        size = self.num_classes
        # A gather on a GPU would copy all class_ranks there in each call.
        with tf.device(cpu_of(near)):
            ranks = tf.gather(class_ranks, tf.minimum(self.lists, size - 1))
        ranks = _ascending(tf.where(self.lists < size, ranks, size))
        counts = tf.reduce_sum(tf.cast(ranks < size, tf.int64), -1)
        return {
            "row_spans": [row_spans],
            "allowed_ranks": [tf.boolean_mask(ranks, ranks < size)],
            "allowed_splits": [tf.pad(tf.cumsum(counts), [[1, 0]])],
        }


# Those where all classes are allowed.
NO_MASK = {"row_spans": [], "allowed_ranks": [], "allowed_splits": []}


def _classes_of_mask(mask, size):
    """The classes `[M]` of a mask `[N]`."""
    if mask.shape.rank != 1:
        raise ValueError(
            "allowed must have the shape [num_classes] as booleans, which are "
            f"the same for all inputs, but has {mask.shape}; give the classes "
            "of each input, [..., M], in their place"
        )
    tf.debugging.assert_equal(
        tf.size(mask),
        size,
        "allowed must have a boolean for each class of the tree",
    )
    return tf.where(mask)[:, 0]


def _ascending(lists):
    """Sorts each list; most are sorted already, and need a look alone."""
    return tf.cond(
        tf.reduce_all(lists[:, 1:] >= lists[:, :-1]),
        lambda: lists,
        lambda: tf.sort(lists, -1),
    )


def _checked(classes, size):
    """Returns the classes; an error unless each is in [-1, N)."""
    is_right = (classes >= -1) & (classes < size)
    asserted = tf.debugging.Assert(
        tf.reduce_all(is_right),
        [
            "allowed has a class that is outside "
            f"[0, {size}), the tree's classes, and is no -1:",
            tf.boolean_mask(classes, ~is_right),
        ],
        summarize=1,
    )
    return arguments.checked(classes, asserted)
