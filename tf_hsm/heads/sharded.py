"""A head whose tree is cut: a top, and a shard on each device.

Each example passes the top and the shard that has its label. Inputs go to the
devices; losses and the gradient of the inputs come back. Rows, their gradients
and the slots of optimizers stay on their device.
"""

import dataclasses

import tensorflow as tf

from tf_hsm.heads import sharded_answers
from tf_hsm.heads.part_calls import (
    call_if_used,
    call_parts,
    check_here,
    losses_on_copies,
)
from tf_hsm.heads.sharded_rows import ShardedRows
from tf_hsm.heads.tree_head import RowShares, TreeHead
from tf_hsm.runtime import arguments, row_parts
from tf_hsm.runtime.quantized_rows import QuantizedRows


@dataclasses.dataclass(frozen=True, eq=False)
class ShardedHead:
    """A hierarchical softmax over several devices.

    Attributes:
      rows: the `ShardedRows`, whose parts are `TreeHead`s.
    """

    rows: ShardedRows

    @property
    def num_classes(self):
        """N, the number of classes."""
        return self.rows.plan.tree.num_classes

    def losses(self, batch):
        """See `tf_hsm.heads.head.Head`."""
        rows, shape = self.rows, tf.shape(batch.labels)
        labels = tf.reshape(batch.labels, [-1])
        inputs = rows.flat(self.floats(batch.inputs), shape, "labels")
        batch = dataclasses.replace(batch, inputs=inputs)
        routing = rows.route(labels, batch.ignored)
        losses = self._losses_below(batch, routing)
        of_top = dataclasses.replace(
            batch,
            labels=routing.units,
            # A unit may have the number of an ignored label.
            ignored=[-1] if batch.ignored else [],
            path=batch.path.of_part(0),
        )
        losses += losses_on_copies(rows.top.head, of_top)
        return tf.reshape(losses, shape)

    def _losses_below(self, batch, routing):
        """The losses `[B]` in the shards; 0 for labels that are in none."""
        rows, split = self.rows, routing.routes.split
        dtype = arguments.accumulator(self.dtype)
        if not rows.shards:
            return tf.zeros(tf.shape(routing.units), dtype)

        def losses(part, inputs, places):
            if batch.step is not None and rows.on_replicas:
                batch.step.skip(part.number - 1)
            return part.head.losses(
                dataclasses.replace(
                    batch,
                    labels=places,
                    inputs=inputs,
                    ignored=[],
                    path=batch.path.of_part(part.number),
                )
            )

        found = call_parts(
            rows.shards,
            rows.owners,
            losses,
            split(batch.inputs),
            [routing.places],
            tf.zeros([0], dtype),
            batch.step,
        )
        return routing.routes.join(found, 0)

    def prior(self, counts):
        """See `tf_hsm.heads.head.Head`."""
        shares = self.rows.plan.tree.row_shares(counts)
        return [RowShares(shares[part.tree_rows]) for part in self.rows.parts]

    log_probs = sharded_answers.log_probs
    log_prob = sharded_answers.log_prob
    top_k = sharded_answers.top_k
    sample = sharded_answers.sample

    def best_class(self, inputs):
        """See `TreeHead.best_class`."""

        def best(inputs):
            return self.top_k(inputs, 1).classes[..., 0]

        return call_if_used(self.rows.owners, best, inputs)

    def with_tree(self, tree):
        """Returns a head with the same variables for a tree of this shape."""
        plan = self.rows.plan
        plan = type(plan).from_config(plan.get_config(), tree)
        return ShardedHead(self.rows.for_plan(plan))

    def variables(self):
        """Returns the weights and biases of all parts, part by part."""
        return [v for head in self.tree_heads() for v in head.variables()]

    def tree_heads(self):
        """See `tf_hsm.heads.head.Head`: for the top, then for the shards."""
        return [part.head for part in self.rows.parts]

    def on_one_device(self):
        """Returns a `TreeHead` with copies of all rows, on one device.

        Raises:
          ValueError: other processes have some of the rows.
        """
        heads = self.tree_heads()
        check_here(heads)
        weights = [head.weights for head in heads]
        biases = [head.biases for head in heads]
        is_quantized = isinstance(weights[0], QuantizedRows)
        with row_parts.on("CPU:0" if is_quantized else None):
            biases = None if biases[0] is None else row_parts.joined(biases)
            return TreeHead(_joined(weights), biases, self.rows.plan.tree)

    @property
    def dtype(self):
        """The `tf.DType` of the rows."""
        return arguments.dtype_of(self.rows.top.head.weights)

    def floats(self, inputs):
        """Returns inputs as floats; lists take the type of the rows."""
        return arguments.floats(inputs, self.dtype)


def _joined(weights):
    """Returns new weights with the rows of a list of weights."""
    if not isinstance(weights[0], QuantizedRows):
        return row_parts.joined(weights)
    codes = row_parts.joined([rows.codes for rows in weights])
    scales = row_parts.joined([rows.scales for rows in weights])
    return QuantizedRows(codes, scales, weights[0].width)
