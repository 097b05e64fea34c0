"""A head whose tree is cut: a top, and a shard on each device.

Each example passes the top and the shard that has its label. Inputs go to the
devices; losses and the gradient of the inputs come back. Rows, their gradients
and the slots of optimizers stay on their device.
"""

import dataclasses

import tensorflow as tf

from tf_hsm.heads import best_of_shards, sharded_answers
from tf_hsm.heads.sharded_rows import ShardedRows
from tf_hsm.heads.tree import RowShares, TreeHead
from tf_hsm.ops.log_probs import check_mask_options, renormalized
from tf_hsm.ops.top_k import TopK
from tf_hsm.runtime import arguments, private_tensorflow, row_parts

# What AutoGraph would look for is not in it, and takes long to look for.
_as_written = tf.autograph.experimental.do_not_convert


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

    @_as_written
    def losses(self, batch):
        """See `tf_hsm.heads.head.Head`."""
        rows, shape = self.rows, tf.shape(batch.labels)
        labels = tf.reshape(batch.labels, [-1])
        inputs = rows.flat(self._floats(batch.inputs), shape, "labels")
        routing = rows.route(labels, batch.ignored)
        loss_weights, weights = None, [None] * len(rows.shards)
        if batch.loss_weights is not None:
            loss_weights = tf.reshape(batch.loss_weights, [-1])
            weights = routing.routes.split(loss_weights)
        # A unit may have the number of an ignored label, which is -1 by now.
        losses = rows.top.head.losses(
            batch.replace(
                labels=routing.units,
                inputs=inputs,
                ignored=[-1] if batch.ignored else [],
                path=batch.path.of_part(0),
                loss_weights=loss_weights,
            )
        )
        below = []
        for number, (part, places, x, weight) in enumerate(
            zip(
                rows.shards,
                routing.places,
                routing.routes.split(inputs),
                weights,
                strict=True,
            ),
            1,
        ):
            of_part = batch.replace(
                labels=places,
                inputs=x,
                ignored=[],
                path=batch.path.of_part(number),
                loss_weights=weight,
            )
            with tf.device(part.device):
                below.append(part.head.losses(of_part))
        if below:
            losses += routing.routes.join(below, 0)
        return tf.reshape(losses, shape)

    def prior(self, counts):
        """See `tf_hsm.heads.head.Head`."""
        shares = self.rows.plan.tree.row_shares(counts)
        return [RowShares(shares[part.tree_rows]) for part in self.rows.parts]

    @_as_written
    def log_probs(self, inputs, *, nodes=False):
        """See `TreeHead.log_probs`."""
        inputs = self._floats(inputs)
        return sharded_answers.log_probs(self.rows, inputs, nodes)

    @_as_written
    def log_prob(self, classes, inputs, *, allowed=None, renormalize=False):
        """See `TreeHead.log_prob`."""
        check_mask_options(self.rows.plan.tree, None, allowed, renormalize)
        inputs = self._floats(inputs)
        return sharded_answers.log_prob(
            self.rows, classes, inputs, allowed, renormalize
        )

    @_as_written
    def top_k(
        self,
        inputs,
        k,
        *,
        beam_width=None,
        return_pruned=False,
        threshold=None,
        bounds=None,
        allowed=None,
        renormalize=False,
    ):
        """See `TreeHead.top_k`."""
        check_mask_options(self.rows.plan.tree, None, allowed, renormalize)
        inputs = self._floats(inputs)
        bounds = arguments.bounds_of(threshold, bounds, inputs)
        shape = tf.shape(inputs)[:-1]
        mask = None
        if allowed is not None:
            mask = sharded_answers.allowed_places(self.rows, allowed, inputs)
        flat = self.rows.flat(inputs, shape, "inputs")
        if bounds is not None:
            dtype = arguments.accumulator(self._dtype)
            bounds = arguments.flat_bounds(bounds, shape, dtype)
        best = best_of_shards.best_classes(
            self.rows, flat, k, beam_width=beam_width, least=bounds, mask=mask
        )
        log_probs = best.log_probs
        if renormalize:
            of_allowed = sharded_answers.allowed_log_probs(
                self.rows, mask.classes, flat
            )
            log_probs = renormalized(log_probs, of_allowed)
        best = best._replace(
            log_probs=_unflat(log_probs, shape),
            classes=_unflat(best.classes, shape),
            num_pruned=tf.reshape(best.num_pruned, shape),
        )
        return best if return_pruned else TopK(best.log_probs, best.classes)

    @_as_written
    def best_class(self, inputs):
        """See `TreeHead.best_class`."""
        return private_tensorflow.call_if_used(
            lambda x: self.top_k(x, 1).classes[..., 0], inputs
        )

    @_as_written
    def sample(
        self,
        inputs,
        num_samples,
        *,
        seed=None,
        temperature=1.0,
        top_k=None,
        top_p=None,
        allowed=None,
    ):
        """See `TreeHead.sample`."""
        return sharded_answers.sample(
            self.rows,
            self._floats(inputs),
            num_samples,
            seed=seed,
            temperature=temperature,
            top_k=top_k,
            top_p=top_p,
            allowed=allowed,
        )

    def variables(self):
        """Returns the weights and biases of all parts, part by part."""
        return [v for part in self.rows.parts for v in part.head.variables()]

    def on_one_device(self):
        """Returns a `TreeHead` with copies of all rows, on one device."""
        heads = [part.head for part in self.rows.parts]
        weights = row_parts.joined([head.weights for head in heads])
        biases = None
        if heads[0].biases is not None:
            biases = row_parts.joined([head.biases for head in heads])
        return TreeHead(weights, biases, self.rows.plan.tree)

    @property
    def _dtype(self):
        return arguments.dtype_of(self.rows.top.head.weights)

    def _floats(self, inputs):
        return arguments.floats(inputs, self._dtype)


def _unflat(values, shape):
    return tf.reshape(values, tf.concat([shape, tf.shape(values)[1:]], 0))
