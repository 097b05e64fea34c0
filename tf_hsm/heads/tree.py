"""A hierarchical softmax over one tree: weights, losses and answers."""

import dataclasses
import inspect
import typing

import numpy as np

from tf_hsm.heads import quantized
from tf_hsm.ops.log_probs import (
    hierarchical_softmax_log_prob,
    hierarchical_softmax_log_probs,
)
from tf_hsm.ops.loss import hierarchical_softmax_loss
from tf_hsm.ops.sample import hierarchical_softmax_sample
from tf_hsm.ops.top_k import best_class, hierarchical_softmax_top_k
from tf_hsm.ops.train_step import hierarchical_softmax_train_step
from tf_hsm.runtime import quantized_rows
from tf_hsm.runtime.quantized_rows import QuantizedRows
from tf_hsm.runtime.tree_tensors import device_array
from tf_hsm.tree import Forest, Tree
from tf_hsm.tree.check import check_is_tree

# The arguments that a head has.
_OWN = ("weights", "biases", "tree", "logit_soft_cap")


def _method(function):
    """A method of `TreeHead` that passes what the head has.

    Args:
      function: takes `weights`, `biases`, `tree` and `logit_soft_cap`.
    """
    signature = inspect.signature(function)
    own = inspect.Parameter("self", inspect.Parameter.POSITIONAL_OR_KEYWORD)
    others = [
        parameter
        for name, parameter in signature.parameters.items()
        if name not in _OWN
    ]
    signature = signature.replace(parameters=[own, *others])

    name = function.__name__.removeprefix("hierarchical_softmax_")

    def method(self, *args, **kwargs):
        try:
            given = signature.bind(self, *args, **kwargs).arguments
        except TypeError as error:
            raise TypeError(f"TreeHead.{name}: {error}") from None
        del given["self"]
        return function(**{name: getattr(self, name) for name in _OWN}, **given)

    method.__signature__ = signature
    method.__name__ = name
    method.__qualname__ = f"TreeHead.{name}"
    method.__doc__ = (
        f"`tf_hsm.{function.__name__}` without the arguments `weights`, "
        "`biases`, `tree` and `logit_soft_cap`, which the head has:\n\n    "
        f"{function.__doc__}"
    )
    return method


class RowShares:
    """The prior of label smoothing, which graphs capture instead of copying.

    Attributes:
      shares: `[R]` float32, the share of each row in its group.
    """

    def __init__(self, shares):
        """Takes the shares `[R]`."""
        self.shares = shares.astype(np.float32)

    def tensor(self, near):
        """The shares as a tensor on a variable's device, or on the CPU."""
        return device_array(self, "shares", near)


# A tuple would do, but Keras would take its variables for a layer's.
@dataclasses.dataclass(frozen=True, eq=False)
class TreeHead:
    """A hierarchical softmax in one object, without Keras.

    >>> tree = tf_hsm.Tree.two_level(1_000_000)
    >>> weights = tf.Variable(tf.random.normal([tree.num_rows, 64]))
    >>> head = tf_hsm.TreeHead(weights, None, tree)
    >>> with tf.GradientTape() as tape:
    ...     loss = tf.reduce_mean(head.loss(labels, inputs))
    >>> log_probs, classes = head.top_k(inputs, 10)

    `loss`, `train_step`, `log_probs`, `log_prob`, `top_k` and `sample` are the
    functions `tf_hsm.hierarchical_softmax_*` of these names, less the arguments
    `weights`, `biases`, `tree` and `logit_soft_cap`.

    Attributes:
      weights: `[tree.num_weight_rows, width]`, a tensor, a variable or
        `QuantizedRows`.
      biases: `[tree.num_weight_rows]`, or None.
      tree: a `tf_hsm.Tree`, or a `tf_hsm.Forest`.
      logit_soft_cap: see `tf_hsm.hierarchical_softmax_loss`.
    """

    weights: typing.Any
    biases: typing.Any
    tree: Tree | Forest
    _: dataclasses.KW_ONLY
    logit_soft_cap: float | None = None

    def __post_init__(self):
        """Raises a TypeError if `tree` is none."""
        check_is_tree(self.tree)

    @property
    def num_classes(self):
        """N, the number of classes."""
        return self.tree.num_classes

    loss = _method(hierarchical_softmax_loss)
    train_step = _method(hierarchical_softmax_train_step)
    log_probs = _method(hierarchical_softmax_log_probs)
    log_prob = _method(hierarchical_softmax_log_prob)
    top_k = _method(hierarchical_softmax_top_k)
    sample = _method(hierarchical_softmax_sample)

    def losses(self, batch):
        """See `tf_hsm.heads.head.Head`."""
        if isinstance(self.weights, QuantizedRows):
            return quantized.losses(self, batch)
        if batch.step is not None:
            return self.step_part(batch).losses(batch.inputs)
        losses = hierarchical_softmax_loss(
            self.weights,
            self.biases,
            batch.labels,
            batch.inputs,
            self.tree,
            ignore_class=batch.ignored,
            **self._path_arguments(batch.path),
        )
        if batch.penalties is not None:
            batch.penalties.of_paths(self, batch, losses)
        return losses

    def step_part(self, batch):
        """Returns the part of `batch.step` that updates this head."""
        return batch.step_part(self, **self._path_arguments(batch.path))

    def _path_arguments(self, path):
        prior = path.smoothing_prior
        return {
            "label_smoothing": path.label_smoothing,
            "nodes": path.nodes,
            "smoothing_prior": prior and prior.tensor(self.weights),
            "logit_soft_cap": self.logit_soft_cap,
            "z_loss": path.z_loss,
        }

    def prior(self, counts):
        """See `tf_hsm.heads.head.Head`."""
        return RowShares(self.tree.row_shares(counts))

    def best_class(self, inputs):
        """Returns the most probable class of each input, `[...]` int64."""
        return best_class(
            self.weights, self.biases, inputs, self.tree, self.logit_soft_cap
        )

    def tree_heads(self):
        """See `tf_hsm.heads.head.Head`."""
        return [self]

    def rows_for(self, tree):
        """Returns the row of this tree that each row of another continues.

        Returns:
          `[R]`, or -1: see `Tree.map_rows`.
        """
        return tree.map_rows(self.tree)

    def with_tree(self, tree):
        """Returns a head with the same variables for a tree of this shape."""
        return dataclasses.replace(self, tree=tree)

    def variables(self):
        """Returns the weights and, if there are any, the biases."""
        found = [*quantized_rows.variables(self.weights), self.biases]
        return [v for v in found if v is not None]

    def on_one_device(self):
        """Returns this head, whose rows are on one device."""
        return self
