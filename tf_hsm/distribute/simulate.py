"""A simulation of the devices of a plan on batches of labels."""

import numpy as np

from tf_hsm import _checks
from tf_hsm.distribute.simulation import Simulation
from tf_hsm.tree.arrays import groups_of, sum_from_root


def simulate(plan, batches, counts, batch, steps, seed, shard):
    """See `Plan.simulate`."""
    if batches is None:
        batches = _draw(plan, counts, batch, steps, seed, shard)
    elif counts is not None or batch is not None or shard is not None:
        raise ValueError(
            "counts, batch or shard is given, but they say how to draw "
            "batches; leave out these arguments, or batches"
        )
    counter = _Counter(plan)
    results = [counter.count(labels, i) for i, labels in enumerate(batches)]
    if not results:
        raise ValueError("batches is empty; there is at least one step")
    sizes, routed, work, touched, top_work, top_touched = (
        np.array(values) for values in zip(*results, strict=True)
    )
    times = {}
    if plan.step.width is not None:
        times = _times(plan, routed, work, touched, top_work, top_touched)
    return Simulation(
        devices=plan.devices,
        batches=sizes,
        examples=routed.sum(1),
        work=work,
        touched_rows=touched,
        top_work=top_work,
        step=plan.step,
        **times,
    )


def _times(plan, routed, work, touched, top_work, top_touched):
    """Returns the fields of a `Simulation` that need a width.

    Args:
      plan: the `Plan`.
      routed: `[steps, R, S]`, the examples of each part of a batch whose labels
        are in each shard. R is the number of replicas, or 1.
      work: `[steps, S]`, the rows that examples score in each shard.
      touched: `[steps, S]`, the rows that any of them scores.
      top_work: `[steps, R]`, the rows that examples score in the top.
      top_touched: `[steps, R]`, the rows that any of them scores.
    """
    step, num_classes = plan.step, plan.tree.num_classes
    arriving = routed.sum(1)
    wire = step.wire_bytes(arriving, num_classes)
    network = step.wire_milliseconds(wire.sum(1))
    if step.on_replicas:
        own = np.diagonal(routed, axis1=1, axis2=2)
        arriving, leaving = arriving - own, routed.sum(2) - own
        wire = step.wire_bytes(arriving + leaving, num_classes)
        network = step.exchange_milliseconds(leaving, arriving, num_classes)
        # Each replica sends its gradient of the top to each other replica.
        gradients = step.top_gradient_bytes(top_touched, 2)
        sent = gradients * (len(plan.devices) - 1)
        received = gradients.sum(1, keepdims=True) - gradients
        gathering = 1e3 * np.maximum(sent, received).max(1) / step.network
        wire, network = wire + sent + received, network.max(1) + gathering
    return {
        "wire_bytes": wire,
        "network_milliseconds": network,
        "milliseconds": np.where(
            work > 0, step.milliseconds(work, touched), 0.0
        ),
        "top_milliseconds": np.where(
            top_work > 0, step.milliseconds(top_work, top_touched), 0.0
        ),
    }


def _draw(plan, counts, batch, steps, seed, shard):
    """Yields batches of labels, drawn by counts; arguments are checked now."""
    num_classes = plan.tree.num_classes
    batch = plan.step.batch if batch is None else batch
    if batch is None:
        raise ValueError("batch is None, and the plan has none either")
    batch = _checks.check_int("batch", batch, 1)
    steps = _checks.check_int("steps", 100 if steps is None else steps, 1)
    rng = np.random.default_rng(seed)
    counts = plan.tree._counts_or_own(counts)
    if counts is None and shard is None:
        return (rng.integers(num_classes, size=batch) for _ in range(steps))
    if counts is None:
        counts = np.ones(num_classes)
    counts = _checks.check_counts(counts, num_classes)
    if not counts.any():
        raise ValueError("all counts are zero; no class ever occurs")
    if shard is not None:
        counts = np.where(_is_in_shard(plan, shard), counts, 0)
        if not counts.any():
            raise ValueError(f"shard {shard} has no class that occurs")
    sums = np.cumsum(counts / counts.max())
    # Rounding must not draw what is beyond the last class that occurs.
    last = int(np.flatnonzero(counts)[-1])
    return (
        np.minimum(
            np.searchsorted(sums, sums[-1] * rng.random(batch), "right"), last
        )
        for _ in range(steps)
    )


def _is_in_shard(plan, number):
    """Whether each class is in a shard, `[N]`."""
    number = _checks.check_int("shard", number, 0)
    if number >= len(plan.devices):
        raise ValueError(
            f"shard is {number}; the plan has {len(plan.devices)} shards"
        )
    begin, end = plan.layout.first_units[number : number + 2]
    units = plan.layout.group_units
    groups = groups_of(plan.tree.group_offsets, plan.tree.class_rows)
    return ((units >= begin) & (units < end))[groups]


class _Counter:
    """Counts what the devices do with one batch of labels."""

    def __init__(self, plan):
        tree, units = plan.tree, plan.layout.group_units
        self._tree = tree
        self._fanouts = tree._group_weight_rows
        self._above = groups_of(tree.group_offsets, tree.group_parents)
        self._num_shards = len(plan.devices)
        self._num_parts = self._num_shards if plan.step.on_replicas else 1
        # Shard S, which is no device, is for the top.
        shards = np.searchsorted(
            plan.layout.first_units, np.arange(plan.layout.num_units), "right"
        )
        shards = np.where(shards, shards - 1, self._num_shards)
        self._shards = np.where(units < 0, self._num_shards, shards[units])
        self._rows = self._on_paths(units >= 0)
        self._top_rows = self._on_paths(units < 0)
        self._is_touched = np.zeros(tree.num_groups, bool)

    def _on_paths(self, counted):
        """Returns the rows of counted groups from the root to each, `[G]`."""
        return sum_from_root(
            np.where(counted, self._fanouts, 0), self._tree._levels, self._above
        )

    def count(self, labels, position):
        """Returns the batch's size, and what shards and top have to do.

        They are arrays as of `_times`, for one step.
        """
        labels = self._checked(labels, position)
        tree, count, parts = self._tree, self._num_shards, self._num_parts
        groups = groups_of(tree.group_offsets, tree.class_rows[labels])
        shards = self._shards[groups]
        part = np.arange(labels.size) * parts // max(labels.size, 1)
        routed = np.bincount(
            part * (count + 1) + shards, minlength=parts * (count + 1)
        ).reshape(parts, count + 1)[:, :count]
        touched = [self._touched(groups[part == i]) for i in range(parts)]
        return (
            labels.size,
            routed,
            self._of_shards(shards, self._rows[groups])[:count],
            self._of_shards(*self._scored(np.unique(np.concatenate(touched))))[
                :count
            ],
            np.bincount(part, self._top_rows[groups], parts).astype(np.int64),
            [self._of_shards(*self._scored(x))[count] for x in touched],
        )

    def _of_shards(self, shards, rows):
        """Returns the sum of rows for each shard, and for the top."""
        sums = np.bincount(shards, rows, self._num_shards + 1)
        return sums.astype(np.int64)

    def _scored(self, groups):
        """Returns the shard and the rows of each group."""
        return self._shards[groups], self._fanouts[groups]

    def _touched(self, groups):
        """Returns some groups and the groups above them, each once."""
        seen, found, groups = self._is_touched, [], np.unique(groups)
        while groups.size:
            seen[groups] = True
            found.append(groups)
            groups = np.unique(self._above[groups])
            groups = groups[(groups >= 0) & ~seen[groups]]
        found = np.concatenate(found) if found else np.empty(0, np.int64)
        seen[found] = False
        return found

    def _checked(self, labels, position):
        """Returns labels of any shape as int64 of rank 1, if they are right."""
        array = np.asarray(labels)
        if array.dtype.kind not in "iu" and array.size:
            raise ValueError(
                f"batches[{position}] must hold integers, not {array.dtype}"
            )
        array = array.reshape(-1).astype(np.int64)
        num_classes = self._tree.num_classes
        _checks.refuse_first(
            (array < 0) | (array >= num_classes),
            lambda i: (
                f"label {array[i]} at position {i} of batches[{position}] is "
                f"not in [0, {num_classes})"
            ),
        )
        return array
