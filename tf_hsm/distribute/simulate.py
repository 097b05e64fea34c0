"""What the devices of a plan do with batches of labels."""

import numpy as np

from tf_hsm import _checks
from tf_hsm.distribute.simulation import Simulation
from tf_hsm.tree.arrays import sum_from_root


def simulate(plan, batches, counts, batch, steps, seed):
    """See `Plan.simulate`."""
    if batches is None:
        batches = _draw(plan, counts, batch, steps, seed)
    elif counts is not None or batch is not None:
        raise ValueError(
            "batches are drawn from counts, or given; counts or batch are for "
            "the former"
        )
    counter = _Counter(plan)
    results = [counter.count(labels, i) for i, labels in enumerate(batches)]
    if not results:
        raise ValueError("batches is empty; there is at least one step")
    sizes, examples, work, touched, top_work, top_touched = (
        np.array(values) for values in zip(*results, strict=True)
    )
    step = plan.step
    wire = milliseconds = top_milliseconds = None
    if step.width is not None:
        wire = step.wire_bytes(examples, plan.tree.num_classes)
        milliseconds = np.where(
            examples > 0, step.milliseconds(work, touched), 0.0
        )
        top_milliseconds = np.where(
            sizes > 0, step.milliseconds(top_work, top_touched), 0.0
        )
    return Simulation(
        devices=plan.devices,
        batches=sizes,
        examples=examples,
        work=work,
        touched_rows=touched,
        top_work=top_work,
        wire_bytes=wire,
        milliseconds=milliseconds,
        top_milliseconds=top_milliseconds,
        step=step,
    )


def _draw(plan, counts, batch, steps, seed):
    """Yields batches of labels, drawn by counts; arguments are checked now."""
    num_classes = plan.tree.num_classes
    batch = plan.step.batch if batch is None else batch
    if batch is None:
        raise ValueError("batch is None, and the plan has none either")
    batch = _checks.check_int("batch", batch, 1)
    steps = _checks.check_int("steps", 100 if steps is None else steps, 1)
    rng = np.random.default_rng(seed)
    counts = plan.tree._counts_or_own(counts)
    if counts is None:
        return (rng.integers(num_classes, size=batch) for _ in range(steps))
    counts = _checks.check_counts(counts, num_classes)
    if not counts.any():
        raise ValueError("all counts are zero; no class ever occurs")
    sums = np.cumsum(counts / counts.max())
    # Rounding must not draw what is beyond the last class that occurs.
    last = int(np.flatnonzero(counts)[-1])
    return (
        np.minimum(
            np.searchsorted(sums, sums[-1] * rng.random(batch), "right"), last
        )
        for _ in range(steps)
    )


class _Counter:
    """Counts what the devices do with one batch of labels."""

    def __init__(self, plan):
        tree, units = plan.tree, plan.layout.group_units
        self._tree = tree
        self._fanouts = tree._group_weight_rows
        self._num_shards = len(plan.devices)
        # Shard S, which is no device, is for the top.
        shards = np.searchsorted(
            plan.layout.first_units, np.arange(plan.layout.num_units), "right"
        )
        shards = np.where(shards, shards - 1, self._num_shards)
        self._group_shards = np.where(
            units < 0, self._num_shards, shards[units]
        )
        groups = tree.row_groups[tree.class_rows]
        self._class_groups = groups
        self._class_shards = self._group_shards[groups]
        self._class_rows = self._on_paths(units >= 0)[groups]
        self._class_top_rows = self._on_paths(units < 0)[groups]
        self._is_touched = np.zeros(tree.num_groups, bool)

    def _on_paths(self, counted):
        """Returns the rows of counted groups from the root to each, `[G]`."""
        tree = self._tree
        return sum_from_root(
            np.where(counted, self._fanouts, 0),
            tree._levels,
            tree.row_groups[tree.group_parents],
        )

    def count(self, labels, position):
        """Returns examples, work and touched rows, of shards and the top."""
        labels = self._checked(labels, position)
        count = self._num_shards
        shards = self._class_shards[labels]
        examples = np.bincount(shards, minlength=count + 1)
        work = np.bincount(shards, self._class_rows[labels], count + 1)
        groups = self._touched(labels)
        touched = np.bincount(
            self._group_shards[groups], self._fanouts[groups], count + 1
        )
        return (
            labels.size,
            examples[:count],
            work[:count].astype(np.int64),
            touched[:count].astype(np.int64),
            int(self._class_top_rows[labels].sum()),
            int(touched[count]),
        )

    def _touched(self, labels):
        """Returns the groups on the path of any label, each once."""
        tree, seen = self._tree, self._is_touched
        found, groups = [], np.unique(self._class_groups[labels])
        while groups.size:
            seen[groups] = True
            found.append(groups)
            rows = tree.group_parents[groups]
            groups = np.unique(tree.row_groups[rows[rows >= 0]])
            groups = groups[~seen[groups]]
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
