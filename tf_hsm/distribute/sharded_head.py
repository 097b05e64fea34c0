"""What a layer asks of its rows, where a plan has cut them."""

import tensorflow as tf

from tf_hsm.distribute import best_of_shards, sharded_loss, sharded_predictions
from tf_hsm.ops.top_k import TopK
from tf_hsm.runtime import arguments, private_tensorflow

# What AutoGraph would look for is not in it, and takes long to look for.
_as_written = tf.autograph.experimental.do_not_convert


class ShardedHead:
    """Has the methods of `tf_hsm.layers._whole_head.WholeHead`."""

    def __init__(self, rows):
        """Takes the `ShardedRows`."""
        self.rows = rows

    @_as_written
    def loss(self, labels, inputs, ignored, visit):
        """The loss per label."""
        inputs = self._floats(inputs)
        return sharded_loss.loss(self.rows, labels, inputs, ignored, visit)

    @_as_written
    def train_step(self, labels, inputs, optimizer, **options):
        """The loss per label, and a step in place."""
        inputs = self._floats(inputs)
        return sharded_loss.train_step(
            self.rows, labels, inputs, optimizer, **options
        )

    @_as_written
    def log_probs(self, inputs, nodes):
        """Those of all classes, or of all nodes."""
        inputs = self._floats(inputs)
        return sharded_predictions.log_probs(self.rows, inputs, nodes)

    @_as_written
    def log_prob(self, classes, inputs, **options):
        """Those of given classes."""
        _check_none(options)
        inputs = self._floats(inputs)
        return sharded_predictions.log_prob(self.rows, classes, inputs)

    @_as_written
    def top_k(
        self, inputs, k, beam_width, return_pruned, bounds=None, **options
    ):
        """The best classes."""
        _check_none(options)
        inputs = self._floats(inputs)
        shape = tf.shape(inputs)[:-1]
        flat = self.rows.flat(inputs, shape, "inputs")
        if bounds is not None:
            dtype = arguments.accumulator(self.rows.top.weights.dtype)
            bounds = arguments.flat_bounds(bounds, shape, dtype)
        best = best_of_shards.best_classes(
            self.rows, flat, k, beam_width, bounds
        )
        best = best._replace(
            log_probs=_unflat(best.log_probs, shape),
            classes=_unflat(best.classes, shape),
            num_pruned=tf.reshape(best.num_pruned, shape),
        )
        return best if return_pruned else TopK(best.log_probs, best.classes)

    @_as_written
    def best_class(self, inputs):
        """The most probable class."""
        return private_tensorflow.call_if_used(
            lambda x: self.top_k(x, 1, None, False).classes[..., 0], inputs
        )

    @_as_written
    def sample(self, inputs, *args, **options):
        """Classes that are drawn."""
        _check_none(options)
        inputs = self._floats(inputs)
        return sharded_predictions.sample(self.rows, inputs, *args)

    def _floats(self, inputs):
        return arguments.floats(inputs, self.rows.top.weights.dtype)


def _check_none(options):
    """Refuses what is for a tree in one piece."""
    for name, value in options.items():
        if value is not None and value is not False:
            raise ValueError(
                f"{name} is not possible for a head with a plan; ask it within "
                "`with head.on_one_device():`"
            )


def _unflat(values, shape):
    return tf.reshape(values, tf.concat([shape, tf.shape(values)[1:]], 0))
