"""A head whose tree is cut: a top, and a shard on each device.

Each example passes the top and the shard that has its label. Inputs go to the
devices; losses and the gradient of the inputs come back. Rows, their gradients
and the slots of optimizers stay on their device.

The top gives each unit its log-probability. A shard goes on from the
log-probabilities of its units, so that what it finds is of the whole tree.
"""

import copy
import dataclasses

import numpy as np
import tensorflow as tf

from tf_hsm.heads.best_of_shards import best_classes
from tf_hsm.heads.check_labels import check_labels
from tf_hsm.heads.head_of_parts import HeadOfParts
from tf_hsm.heads.part_calls import asks_other_processes, check_here
from tf_hsm.heads.parts import Part
from tf_hsm.heads.tree_head import RowShares, TreeHead
from tf_hsm.ops.sample import checked_temperature
from tf_hsm.ops.top_k import TopK
from tf_hsm.runtime import arguments, quantized_rows, row_parts, tree_tensors
from tf_hsm.runtime.quantized_rows import QuantizedRows

# The classes that are looked for first where only their sum is known; then
# that many times more.
_FIRST_CLASSES = 64
_MORE_CLASSES = 4
_BATCH = 1024  # of a replica, where the plan has none


class ShardedHead(HeadOfParts):
    """A hierarchical softmax over several devices.

    Attributes:
      plan: the `tf_hsm.distribute.Plan`.
      top: the `Part` that every example passes.
      parts: a list of `Part`s, without the shards that have no units.
      owners: where each shard belongs to a replica of a strategy, the number of
        the replica of each of `parts`; None where one process calls all.
    """

    sends_starts = True

    def __init__(self, plan, top, shards, on_replicas=False):
        """Takes the variables of each part.

        Args:
          plan: a `Plan`.
          top: its weights; and its biases, or None.
          shards: such a pair for each shard of the plan; the weights are None
            for one without units, or of another process.
          on_replicas: whether each shard belongs to a replica of a strategy.
        """
        self.plan = plan
        with_units = [i for i, s in enumerate(plan.shards) if s.num_units]
        self.owners = with_units if on_replicas else None
        layout = plan.layout
        leaves = slice(0, layout.num_leaf_units)
        self.top = Part(TreeHead(*top, layout.top), 0, leaves, leaves)
        self.parts = [
            Part(
                TreeHead(*shards[i], layout.forests[i]),
                number,
                slice(shard.first_unit, shard.first_unit + shard.num_units),
                slice(shard.first_place, shard.first_place + shard.num_classes),
                shard.device,
            )
            for number, (i, shard) in enumerate(
                [(i, plan.shards[i]) for i in with_units], 1
            )
        ]
        self._tables = {}
        with tf.init_scope(), tf.device(self._table_device):
            places = layout.class_places
            if plan.tree.num_classes < 2**31:
                places = places.astype(np.int32)
            self._class_places = tf.constant(places)
            # The first place of each unit, and of each shard.
            self._unit_places = tf.constant(
                layout.unit_places[1:], places.dtype
            )
            self._first_places = tf.constant(
                [part.places.start for part in self.parts], places.dtype
            )

    @property
    def num_classes(self):
        """N, the number of classes."""
        return self.plan.tree.num_classes

    def with_tree(self, tree):
        """Returns a head with the same variables for a tree of this shape."""
        plan = type(self.plan).from_config(self.plan.get_config(), tree)
        top, *parts = [(h.weights, h.biases) for h in self.tree_heads()]
        parts = iter(parts)
        shards = [
            next(parts) if shard.num_units else (None, None)
            for shard in plan.shards
        ]
        return ShardedHead(plan, top, shards, self.owners is not None)

    def with_heads(self, function):
        """Returns these parts with `function(head)` for the head of each."""
        found = copy.copy(self)
        found.top, *found.parts = [
            dataclasses.replace(part, head=function(part.head))
            for part in self._all_parts
        ]
        return found

    @property
    def _all_parts(self):
        """The top and the shards."""
        return [self.top, *self.parts]

    def tree_heads(self):
        """See `tf_hsm.heads.head.Head`: for the top, then for the shards."""
        return [part.head for part in self._all_parts]

    @property
    def _table_device(self):
        """The first CPU of the task that has the top."""
        return tree_tensors.cpu_of(self.top.head.weights)

    def touched_of_first(self, num_replicas):
        """See `HeadOfParts`: the mean, for the batch of the plan."""
        layout, batch = self.plan.layout, self.plan.step.batch
        batch = _BATCH if batch is None else -(-batch // num_replicas)
        return layout.top.expected_cost(
            layout.unit_loads.masses, batch=batch, width=1
        ).touched_rows

    def find(self, classes, name, counted=None, of_all=False):
        """See `HeadOfParts`."""
        if counted is not None:
            classes = tf.where(counted, classes, tf.zeros_like(classes))
        # Tables are not sent: labels and places are smaller.
        with tf.device(self._table_device):
            flat = tf.reshape(classes, [-1])
            flat = check_labels(flat, self.num_classes, name, of_all)
            places = tf.gather(self._class_places, flat)
            units = tf.searchsorted(
                self._unit_places, places, side="right", out_type=tf.int64
            )
        found = [tf.reshape(x, tf.shape(classes)) for x in (places, units)]
        for values in found:
            values.set_shape(classes.shape)
        if counted is not None:
            found = [tf.where(counted, x, -1) for x in found]
        return found

    def part_at(self, places):
        """See `HeadOfParts`."""
        with tf.device(self._table_device):
            return tf.searchsorted(self._first_places, places, side="right")

    def classes_of(self, part):
        """The class at each place of a part, `[n]` int64, on its device."""
        return self._table(
            (part.device, part.places.start),
            part.device,
            lambda: self.plan.layout.place_classes[part.places],
        )

    def order(self, nodes=False):
        """See `HeadOfParts`."""
        return self._table(
            nodes,
            self._table_device,
            lambda: (
                self.plan.layout.row_places
                if nodes
                else self.plan.layout.class_places
            ),
        )

    def _table(self, key, device, make):
        """A tensor of integers, made once; constants would be in each graph."""
        if key not in self._tables:
            with tf.init_scope(), tf.device(device):
                self._tables[key] = tf.constant(make())
        return self._tables[key]

    def prior(self, counts):
        """See `tf_hsm.heads.head.Head`."""
        shares, layout = self.plan.tree.row_shares(counts), self.plan.layout
        shards = [shard for shard in self.plan.shards if shard.num_units]
        rows = [layout.top_rows, *map(layout.rows_of, shards)]
        return [RowShares(shares[of_part]) for of_part in rows]

    def top_log_probs(self, inputs, nodes=False, temperature=1.0):
        """The log-probabilities of the units, or of the top's nodes.

        With a temperature, logits are divided by it first.
        """
        head = self.top.head
        if tf.is_tensor(temperature) or temperature != 1:
            # A copy, but of a few rows.
            weights, biases = (
                None if v is None else _divided(v, temperature)
                for v in (head.weights, head.biases)
            )
            head = TreeHead(weights, biases, head.tree)
        return head.log_probs(inputs, nodes=nodes)

    def first_log_probs(self, inputs, nodes=False):
        """See `HeadOfParts`."""
        found = self.top_log_probs(inputs, nodes=True)
        rows = self.plan.layout.top.class_rows
        starts = tf.gather(found, rows, axis=-1)
        return found if nodes else starts[:, self.top.units], starts

    def row_log_prob(self, rows, inputs):
        """See `HeadOfParts`."""
        starts = self.top_log_probs(inputs)
        return tf.gather(starts, rows, batch_dims=1), starts

    search = best_classes

    def seeds(self, seed):
        """See `HeadOfParts`."""
        return tf.unstack(tf.random.split(seed, len(self.parts) + 2))

    def first_draws(self, inputs, num_samples, seeds, temperature):
        """See `HeadOfParts`: draws a part, and the classes of the top."""
        # There may be no part whose op checks it.
        temperature = checked_temperature(temperature)
        starts = self.top_log_probs(inputs, temperature=temperature)
        masses = [
            tf.reduce_logsumexp(starts[:, part.units], -1)
            for part in self._all_parts
        ]
        chosen = _categorical(tf.stack(masses, -1), num_samples, seeds[0])
        result = tf.fill(tf.shape(chosen), tf.constant(-1, tf.int64))
        if self.plan.layout.num_leaf_units:
            of_top = starts[:, self.top.units]
            drawn = _categorical(of_top, num_samples, seeds[1])
            drawn = tf.gather(self.classes_of(self.top), tf.maximum(drawn, 0))
            result = tf.where(chosen == 0, drawn, result)
        return result, chosen, starts, seeds[2:]

    def numbered(self, part, classes):
        """See `HeadOfParts`."""
        found = tf.gather(self.classes_of(part), tf.maximum(classes, 0))
        return tf.where(classes < 0, classes, found)

    def best_of_share(self, inputs, top_p):
        """Returns the fewest best classes whose probabilities sum to `top_p`.

        Raises:
          ValueError: other processes have shards. Their loops could have other
            numbers of iterations, and all replicas must exchange examples
            equally often.
        """
        if asks_other_processes(self.owners):
            raise ValueError(
                "top_p needs top_k beside it for a head over workers: give, "
                "for example, top_k=1000"
            )
        most = tf.constant(self.num_classes, tf.int64)

        def find(k, log_probs, classes):
            del log_probs, classes
            log_probs, classes, _ = self.best(inputs, k)
            return tf.minimum(k * _MORE_CLASSES, most), log_probs, classes

        def is_short(k, log_probs, classes):
            del k
            sums = tf.reduce_sum(tf.exp(tf.cast(log_probs, tf.float64)), -1)
            reached = tf.reduce_all(~(sums < tf.cast(top_p, tf.float64)))
            return ~reached & (tf.size(classes[:1], tf.int64) < most)

        state = find(
            tf.minimum(tf.constant(_FIRST_CLASSES, tf.int64), most), 0, 0
        )
        free = tf.TensorShape([None, None])
        _, *best = tf.while_loop(
            is_short, find, state, (tf.TensorShape([]), free, free)
        )
        return TopK(*best)

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
            return TreeHead(_joined(weights), biases, self.plan.tree)


def _joined(weights):
    """Returns new weights with the rows of a list of weights."""
    if not isinstance(weights[0], QuantizedRows):
        return row_parts.joined(weights)
    codes = row_parts.joined([rows.codes for rows in weights])
    scales = row_parts.joined([rows.scales for rows in weights])
    return QuantizedRows(codes, scales, weights[0].width)


def _divided(variable, number):
    values = quantized_rows.tensor(variable)
    dtype = arguments.accumulator(values.dtype)
    return tf.cast(values, dtype) / tf.cast(number, dtype)


def _categorical(log_probs, num_samples, seed):
    """Draws `[B, num_samples]` by log-probabilities `[B, n]` up to a constant.

    Minus infinity and NaN stand for no probability; -1 is drawn where there is
    no other.
    """
    none = tf.constant(-float("inf"), log_probs.dtype)
    log_probs = tf.where(tf.math.is_nan(log_probs), none, log_probs)
    drawn = tf.random.stateless_categorical(log_probs, num_samples, seed)
    any_ = tf.reduce_any(log_probs > none, -1, keepdims=True)
    return tf.where(any_, drawn, tf.constant(-1, tf.int64))
