"""The parts of a tree that is cut, and which examples go to which part."""

import copy
import typing

import numpy as np
import tensorflow as tf

from tf_hsm.heads.check_labels import check_labels
from tf_hsm.heads.tree_head import TreeHead
from tf_hsm.runtime import arguments, quantized_rows, tree_tensors


class TreePart(typing.NamedTuple):
    """The top, or the shard of one device.

    Attributes:
      head: the `TreeHead` of the top, or of the shard's forest; without
        variables for the shard of another process.
      device: the name of the shard's device; None for the top.
      units: a slice, the units that are roots of the forest; for the top, the
        units that are classes.
      places: a slice, the places of its classes.
      tree_rows: `[n]`, the row of the whole tree of each of its rows.
      number: 0 for the top; the shards that have units count from 1.
    """

    head: TreeHead
    device: str | None
    units: slice
    places: slice
    tree_rows: np.ndarray
    number: int


class Routes:
    """The shard of each example of a batch: one, or none."""

    def __init__(self, shards, count):
        """Takes `shards [B]` int32: 1 for the first of `count`; 0 for none."""
        self._shards = shards
        self._count = count + 1
        self._examples = tf.dynamic_partition(
            tf.range(tf.size(shards)), shards, self._count
        )

    def split(self, values):
        """Values `[B, ...]` as a list, the values of each shard's examples."""
        return tf.dynamic_partition(values, self._shards, self._count)[1:]

    def join(self, values, rest):
        """Puts what each shard has, and `rest` for the others, back in order.

        Args:
          values: a list with `[b, ...]` for each shard.
          rest: a number.
        """
        rest_of_shape = tf.shape(values[0])[1:]
        shape = tf.concat([tf.shape(self._examples[0]), rest_of_shape], 0)
        others = tf.fill(shape, tf.cast(rest, values[0].dtype))
        return tf.dynamic_stitch(self._examples, [others, *values])


class Routing(typing.NamedTuple):
    """Where the labels of a batch are.

    Attributes:
      units: `[B]`, the label in the top; -1 for an ignored one.
      routes: the `Routes` to the shards.
      places: a list of the labels `[b]` in each shard, as its forest counts.
    """

    units: tf.Tensor
    routes: Routes
    places: list


class ShardedRows:
    """The variables of a plan, and the tables by which examples find theirs.

    Attributes:
      plan: the `tf_hsm.distribute.Plan`.
      top: the `TreePart` that every example passes.
      shards: a list of `TreePart`s, without the shards that have no units.
      on_replicas: whether each shard belongs to a replica of a strategy.
      owners: for each of `shards` the number of its replica; None where one
        process calls all shards.
    """

    def __init__(self, plan, top, shards, on_replicas=False):
        """Takes the variables of each part.

        Args:
          plan: a `Plan`.
          top: its weights; and its biases, or None.
          shards: such a pair for each shard of the plan; the weights are None
            for one without units, or of another process.
          on_replicas: as the attribute.
        """
        self.plan = plan
        self.on_replicas = on_replicas
        with_units = [i for i, s in enumerate(plan.shards) if s.num_units]
        self.owners = with_units if on_replicas else None
        layout = plan.layout
        leaves = slice(0, layout.num_leaf_units)
        self.top = TreePart(
            TreeHead(*top, layout.top),
            None,
            leaves,
            leaves,
            layout.top_rows,
            0,
        )
        self.shards = [
            TreePart(
                TreeHead(*pair, forest),
                shard.device,
                slice(shard.first_unit, shard.first_unit + shard.num_units),
                slice(shard.first_place, shard.first_place + shard.num_classes),
                layout.rows_of(shard),
                number,
            )
            for number, (shard, forest, pair) in enumerate(
                [
                    (plan.shards[i], layout.forests[i], shards[i])
                    for i in with_units
                ],
                1,
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
                [part.places.start for part in self.shards], places.dtype
            )

    def for_plan(self, plan):
        """Returns the variables for the same plan of a tree of this shape."""
        top, *shards = [
            (part.head.weights, part.head.biases) for part in self.parts
        ]
        shards = iter(shards)
        return ShardedRows(
            plan,
            top,
            [
                next(shards) if shard.num_units else (None, None)
                for shard in plan.shards
            ],
            self.on_replicas,
        )

    def with_heads(self, function):
        """Returns these parts with `function(head)` for the head of each."""
        found = copy.copy(self)
        found.top, *found.shards = [
            part._replace(head=function(part.head)) for part in self.parts
        ]
        return found

    @property
    def parts(self):
        """The top and the shards."""
        return [self.top, *self.shards]

    @property
    def _table_device(self):
        """The first CPU of the task that has the top."""
        return tree_tensors.cpu_of(self.top.head.weights)

    def route(self, labels, ignored):
        """Returns the `Routing` of labels `[B]`.

        Args:
          labels: integers.
          ignored: the list of those that stand for no class, and go to no
            shard.

        Raises:
          tf.errors.InvalidArgumentError: another label is no class.
        """
        labels = arguments.integers(labels)
        counted = arguments.counted(labels, ignored)
        classes = labels
        if counted is not None:
            classes = tf.where(counted, labels, tf.zeros_like(labels))
        # Tables are not sent: labels and places are smaller.
        places, units = self.find(classes, "labels", self.on_replicas)
        with tf.device(self._table_device):
            shards = tf.searchsorted(self._first_places, places, side="right")
        if counted is not None:
            units = tf.where(counted, units, -1)
            shards = tf.where(counted, shards, 0)
        routes = Routes(shards, len(self.shards))
        places = [
            of_shard - part.places.start
            for of_shard, part in zip(
                routes.split(places), self.shards, strict=True
            )
        ]
        return Routing(units, routes, places)

    def find(self, classes, name, of_all=False):
        """The places and the units of classes, all of their shape.

        Args:
          classes: integers.
          name: of the argument.
          of_all: whether all replicas call this, so that all have the error.

        Raises:
          tf.errors.InvalidArgumentError: a class, element number i of an
            argument of this name, is none.
        """
        with tf.device(self._table_device):
            flat = tf.reshape(classes, [-1])
            flat = check_labels(flat, self.plan.tree.num_classes, name, of_all)
            places = tf.gather(self._class_places, flat)
            units = tf.searchsorted(
                self._unit_places, places, side="right", out_type=tf.int64
            )
            found = [tf.reshape(x, tf.shape(classes)) for x in (places, units)]
            for values in found:
                values.set_shape(classes.shape)
            return found

    def classes_of(self, part):
        """The class at each place of a part, `[n]` int64, on its device."""
        return self._table(
            (part.device, part.places.start),
            part.device,
            lambda: self.plan.layout.place_classes[part.places],
        )

    def order(self, nodes):
        """The place of each class, or node, among all parts."""
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

    def flat(self, inputs, shape, name):
        """Inputs `[..., width]` as `[B, width]`.

        Args:
          inputs: the inputs.
          shape: `[...]`, of an argument with one number for each input.
          name: of that argument.

        Raises:
          tf.errors.InvalidArgumentError: the inputs have another shape.
        """
        width = self.top.head.weights.shape[1]
        return arguments.flat_inputs(inputs, width, shape, name)

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


def _divided(variable, number):
    values = quantized_rows.tensor(variable)
    dtype = arguments.accumulator(values.dtype)
    return tf.cast(values, dtype) / tf.cast(number, dtype)
