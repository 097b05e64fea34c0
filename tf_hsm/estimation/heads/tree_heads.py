"""Heads on one tree: a hierarchical softmax, a label tree, embeddings."""

import dataclasses
import math

import keras

from tf_hsm.estimation import slots
from tf_hsm.estimation.heads import visits
from tf_hsm.estimation.heads.head_type import HeadEstimate
from tf_hsm.estimation.heads.visits import Visits
from tf_hsm.estimation.part import VARIABLE_BYTES, Part, Work
from tf_hsm.estimation.slots import of_rows, part_with
from tf_hsm.layers.quantized import check_policy
from tf_hsm.runtime import library, quantized_rows

_NUMBER = 8  # bytes of a number of a tree's arrays
# Beside them for a moment, when the leaves are first put in order.
_RANKING_BYTES = 40
# An op of log-probabilities has so many for each row on the path of a label
# (cc/core/api/class_log_probs.cc).
_STEP_BYTES = 32
# For each logit, the loss of a quantized label tree has numbers of rows,
# log-sigmoids and the steps of the op (tf_hsm/heads/quantized_losses.py).
_LOGIT_BYTES = 100


@dataclasses.dataclass(frozen=True)
class TreeOptions:
    """The options of a layer that change what a step on a tree needs.

    Attributes:
      optimizer: the optimizer of the head's own, which updates the rows in the
        backward; None: the head has gradients.
      use_bias: whether rows have biases.
      is_random: whether weights begin at random numbers, not at zeros.
      is_tied: whether the weights are the rows of an embedding too; their
        gradient is dense then.
      mode: "int8" or "int4" for quantized weights; None for floats.
    """

    optimizer: object = None
    use_bias: bool = True
    is_random: bool = True
    is_tied: bool = False
    mode: str | None = None

    @classmethod
    def of(cls, layer):
        """Returns the options of a layer of `tf_hsm.layers`."""
        check_policy(layer)
        zeros = keras.initializers.Zeros
        return cls(
            layer.optimizer,
            bool(layer.rows.use_bias),
            not isinstance(layer.rows.kernel_initializer, zeros),
            getattr(layer, "tied_to", None) is not None,
            layer.quantization_mode,
        )


@dataclasses.dataclass(frozen=True)
class TreeEstimate(HeadEstimate):
    """`tf_hsm.layers.HierarchicalSoftmax`; docs/math.md has the formulas."""

    visits: Visits

    kind = "HierarchicalSoftmax"  # of its part
    takes_several_labels = True
    # Bytes in the plan of a batch (docs/math.md, section 10): of a touched
    # group, of an example, and of an example in a group.
    plan = (150, 40, 8)

    @classmethod
    def on(cls, name, classes, counts, options):
        """Returns the head of a `Tree`, or of N classes in two levels."""
        found = visits.of(classes, counts)
        return cls(name, found.num_classes, found, options=options)

    def _parts(self, setting, width):
        found, options = self.visits, self.options
        batch, size = setting.tokens, setting.accumulator_itemsize
        cost = found.cost(batch, width)
        products = 2 * found.logits(batch) * width
        # The tree, and the tensors that the op reads.
        num_groups = found.fanouts.size
        numbers = 3 * found.num_classes + 3 * num_groups - 1
        part = Part(self.name, self.kind, constant_bytes=2 * _NUMBER * numbers)
        if options.mode is not None:
            return [self._quantized(part, setting, width, cost, products)]
        rows = cost.touched_rows
        if not options.is_tied and options.optimizer is None:
            part = dataclasses.replace(part, touched=(rows, rows))
        part = part_with(
            of_rows(found.num_rows, width, options.use_bias, setting.dtype),
            part,
            setting,
            own=options.optimizer,
            index_bytes=8,
            by_blocks=True,
            is_random=options.is_random,
        )
        slot_bytes = 0  # that the backward moves for each touched number
        if options.optimizer is not None:
            slot_bytes = 2 * part.slot_bytes / part.parameters
        # Both passes read a touched number. The backward writes its gradient,
        # or the number and its slots.
        moved = 3 * setting.itemsize + slot_bytes
        group, example, visit = self.plan
        plan_bytes = (
            group * found.groups(batch)
            + example * batch
            + visit * found.pairs(batch)
        )
        step = self._step_bytes(setting, width)
        return [
            dataclasses.replace(
                part,
                saved_bytes=size * batch * (1 + width)
                + step["saved_bytes"]
                + plan_bytes,
                forward_bytes=step.get("forward_bytes", 0),
                backward_bytes=size * batch * width,
                tensor_bytes=step["tensor_bytes"],
                filling_bytes=max(
                    part.filling_bytes, _RANKING_BYTES * found.num_classes
                ),
                forward=Work(step["forward"] * products, cost.bytes / 2, 1),
                backward=Work(
                    step["backward"] * products,
                    cost.bytes / 2 + slot_bytes * rows * width,
                    1,
                ),
                seconds=lambda machine: _seconds(cost, found, moved, machine),
            )
        ]

    def _quantized(self, part, setting, width, cost, products):
        """Quantized rows answer and do not train: a forward."""
        num_rows, options = self.visits.num_rows, self.options
        variables = quantized_rows.shapes(options.mode, num_rows, width)
        if options.use_bias:
            variables += (((num_rows,), "float32"),)
        num_bytes = sum(
            math.prod(shape) * VARIABLE_BYTES[dtype]
            for shape, dtype in variables
        )
        # A forward is a third of a step of floats.
        moved = 3 * num_bytes / (num_rows * width)
        return dataclasses.replace(
            part,
            parameters=num_rows * (width + options.use_bias),
            parameter_bytes=num_bytes,
            forward_bytes=self._answer_bytes(setting, width),
            forward=Work(products, cost.touched_rows * num_bytes / num_rows, 1),
            seconds=lambda machine: (
                _seconds(cost, self.visits, moved, machine) / 3
            ),
            can_train=False,
            uncounted=(f"the time to find and decode rows in {options.mode}",),
        )

    def _answer_bytes(self, setting, width):
        """Bytes that a log-probability of each label needs beside weights."""
        batch, size = setting.tokens, setting.accumulator_itemsize
        inputs = size * batch * padded(width)
        return inputs + _STEP_BYTES * self.visits.pairs(batch)

    def _step_bytes(self, setting, width):
        """Returns what a step has beside losses, dx and its plan, a dict.

        Bytes have the names that a `Part` gives them. "forward" and "backward"
        are how often each pass computes the products of the logits.
        """
        batch, size = setting.tokens, setting.accumulator_itemsize
        probs = size * self.visits.logits(batch)
        saved = 2 * size * self.visits.pairs(batch)  # normalizers
        saved += size * batch * padded(width)
        core = library.constants()
        is_narrow = width <= core.narrow_width
        limit = core.max_narrow_bytes if is_narrow else core.max_kept_bytes
        is_flat = self.visits.fanouts.size == 1 and self.visits.num_classes > 8
        if is_flat and not is_narrow and width <= batch and probs > limit:
            # The op takes the batch in chunks of examples, and sums up the
            # gradient of the weights in the forward. A gradient of the same
            # type takes the memory of the sums.
            sums = size * self.visits.num_rows * width
            is_gradient = size == setting.itemsize
            is_gradient = is_gradient and self.options.optimizer is None
            return {
                "saved_bytes": saved + (0 if is_gradient else sums),
                "forward_bytes": core.chunk_bytes
                + (sums if is_gradient else 0),
                "tensor_bytes": sums,
                "forward": 3,
                "backward": 0,
            }
        kept = probs if probs <= limit else 0
        return {
            "saved_bytes": saved + kept,
            "tensor_bytes": max(size * batch * width, kept),
            "forward": 2,
            "backward": 1 if kept else 2,
        }


@dataclasses.dataclass(frozen=True)
class LabelTreeEstimate(TreeEstimate):
    """`tf_hsm.layers.LabelTree`; docs/label_trees.md has the formulas.

    An example visits the root's group, and each group below which it has a
    label. If its n labels are drawn independently, it visits a group that has
    the share q of all labels with the probability

        1 - (1 - q) ** n

    Where labels that are near each other in the tree occur together, fewer
    groups are visited.
    """

    kind = "LabelTree"
    # cc/core/plan/label_plan.h; a visit has the row above it, which is
    # positive.
    plan = (150, 8, 48)

    def parts(self, setting, width):
        """See `HeadEstimate.parts`."""
        of_labels = self.visits.of_labels(setting.labels_per_example)
        return dataclasses.replace(self, visits=of_labels)._parts(
            setting, width
        )

    def _answer_bytes(self, setting, width):
        batch, size = setting.tokens, setting.accumulator_itemsize
        # Inputs and negative inputs, as they are and padded.
        inputs = 4 * size * batch * padded(width)
        return inputs + _LOGIT_BYTES * self.visits.logits(batch)

    def _step_bytes(self, setting, width):
        batch, size = setting.tokens, setting.accumulator_itemsize
        # The inputs, or their gradients, of all visits.
        inputs = size * self.visits.pairs(batch) * padded(width)
        dz = size * self.visits.logits(batch)
        return {
            "saved_bytes": inputs + dz,
            "forward_bytes": inputs,
            "tensor_bytes": max(inputs, dz),
            "forward": 2,
            "backward": 1,
        }


@dataclasses.dataclass(frozen=True)
class EmbeddingEstimate(HeadEstimate):
    """`tf_hsm.layers.EmbeddingSoftmax`.

    Attributes:
      visits: the `Visits` of its tree.
      num_embeddings: rows of the table.
      width: numbers of a row.
      bag: ids of an example, in the mean; None: each example is one id, and
        there are no bags.
    """

    visits: Visits
    num_embeddings: int
    width: int
    bag: float | None = None

    takes_several_labels = True
    takes_ids = True

    def parts(self, setting, width):
        """See `HeadEstimate.parts`; ids have no width."""
        del width
        return super().parts(setting, 0)

    def parts_of(self, shape, setting):
        """See `HeadEstimate.parts_of`; for ids `[batch]`, or `[batch, n]`."""
        batch, *bag = shape
        head = dataclasses.replace(self, bag=math.prod(bag) if bag else None)
        return head.parts(setting.of_examples(batch), 0)

    def _parts(self, setting, width):
        tree = TreeEstimate(
            f"{self.name} tree",
            self.num_classes,
            self.visits,
            options=self.options,
        )
        return [self._looked_up(setting), *tree.parts(setting, self.width)]

    def _looked_up(self, setting):
        """The table: a look-up, and the means of bags."""
        width, own = self.width, self.options.optimizer
        table = of_rows(self.num_embeddings, width, False, setting.dtype)
        ids = setting.tokens * (1 if self.bag is None else self.bag)
        size = setting.accumulator_itemsize
        looked_up = size * width * ids
        of_bags = 0 if self.bag is None else looked_up
        # A bag multiplies each embedding by its weight, and adds them up.
        added = 0 if self.bag is None else 2 * width * ids
        forward = backward = Work(added, 2 * looked_up + of_bags, 1)
        if own is not None:
            # The backward makes the gradient, and updates the rows by it.
            backward += slots.of(own).update(*table[0][:2], ids)
        part = Part(
            f"{self.name} embeddings",
            "Embedding",
            touched=(ids,),
            saved_bytes=size * width * setting.tokens,
            tensor_bytes=looked_up,
            forward_bytes=of_bags,
            backward_bytes=of_bags + (0 if own is None else looked_up),
            forward=forward,
            backward=backward,
        )
        return part_with(table, part, setting, own=own, by_blocks=True)


def label_tree(name, classes, counts, *, optimizer=None, use_bias=True):
    """Returns the head of a `Tree`, or of N labels in two levels."""
    options = TreeOptions(optimizer, use_bias)
    return LabelTreeEstimate.on(name, classes, counts, options)


def of_label_tree(layer):
    """Returns the head that a `LabelTree` is."""
    options = TreeOptions.of(layer)
    return LabelTreeEstimate.on(layer.name, layer.tree, None, options)


def of_embedding_softmax(layer):
    """Returns the head that an `EmbeddingSoftmax` is."""
    return EmbeddingEstimate(
        layer.name,
        layer.num_classes,
        visits.of(layer.tree),
        layer.num_embeddings,
        layer.width,
        options=TreeOptions.of(layer),
    )


def _seconds(cost, found, moved, machine):
    """Seconds of both passes, which move so many bytes for a touched number."""
    model = dataclasses.replace(
        machine.cost_model, weight=1e3 * moved / machine.read_write
    )
    return found.cost(cost.batch, cost.width, model).milliseconds / 1000


def padded(width):
    """Numbers of an input in the order in which a pass reads it."""
    padding = library.constants().padding
    numbers = -(-width // padding) * padding
    return numbers + padding if numbers and numbers % 256 == 0 else numbers
