"""Plans are made here."""

from tf_hsm import _checks
from tf_hsm.distribute.below import below_groups, below_units
from tf_hsm.distribute.cut import cut
from tf_hsm.distribute.cut_plan import Plan
from tf_hsm.distribute.planned_step import Step
from tf_hsm.tree.tree import check_one_tree


def plan(
    tree,
    devices=None,
    *,
    replicas=None,
    counts=None,
    batch=None,
    width=None,
    top=256,
    slots=1,
    dtype="float32",
    network=1.25e9,
    bandwidth=None,
    cost_model=None,
) -> Plan:
    """Cuts a tree into subtrees of like size, and spreads them over devices.

    The cut depends on the tree, `counts` and `top` alone. So `plan.on` other
    devices is the same model, and can load what was trained on these. All but
    these three arguments and the devices are for what the plan says of a step:
    `print(plan)`, `plan.cost`.

    >>> from tf_hsm.distribute import plan
    >>> cut = plan(Tree.two_level(1_000_000), ["GPU:0", "GPU:1"])
    >>> [(shard.num_units, shard.num_rows) for shard in cut.shards]
    [(500, 500000), (500, 500000)]
    >>> print(plan(tree, replicas=8, batch=4096, width=512))

    Devices get like shares of the work, the rows that an example scores in the
    mean (`Tree.expected_cost`), and of the rows. What is large and cannot be
    cut, as a group, is said in a sentence (`plan.cost.remarks`).

    Args:
      tree: a `tf_hsm.Tree`.
      devices: a list of names of devices, as `tf.device` takes them, one for
        each shard; or how many there are, to plan on paper. One more device
        has the body and the top. "replicas" stands for the replicas of the
        current strategy, as in a layer with `devices="replicas"`.
      replicas: in place of `devices`, how many replicas there are, to plan a
        layer with `devices="replicas"` on paper: each replica has one shard and
        a copy of the top, and computes the body for its part of the batch.
      counts: `[N]`, how often each class is the label; when None, the counts of
        the tree, or all alike if it has none.
      batch: the examples in a step, of all replicas together.
      width: D, the width of the inputs.
      top: about how many subtrees there are to spread, if the tree has so many.
        Those with more than 1 / top of the work or of the rows are cut, as far
        as that keeps the top, which all examples pass, below `16 top` rows or
        the root's group.
      slots: how many numbers the optimizer has for each weight: 0 for SGD, 1
        for Adagrad, RMSprop and Lion, 2 for LazyAdam; 0 is near for
        RowwiseAdagrad.
      dtype: of weights and inputs.
      network: bytes a second into, and out of, the device of the body, or each
        replica.
      bandwidth: bytes a second that each device reads from its memory or writes
        to it; None for the rate of the cost model.
      cost_model: a `tf_hsm.CostModel` of one device; by default one of two
        cores.

    Returns:
      A `Plan`.

    Raises:
      TypeError: `tree` is no Tree, a name of a device is no str, or
        `cost_model` is something else.
      ValueError: there is no device; both `devices` and `replicas` are given,
        or neither; a count is negative, infinite or NaN, or all are zero; or a
        number is out of its range.
    """
    check_one_tree(tree)
    if (devices is None) == (replicas is None):
        raise ValueError("give either devices or replicas")
    if replicas is not None:
        devices = _checks.check_int("replicas", replicas, 1)
    top = _checks.check_int("top", top, 1)
    step = Step.of(
        bandwidth,
        cost_model,
        batch=batch,
        width=width,
        slots=slots,
        dtype=dtype,
        network=network,
        on_replicas=replicas is not None,
    )
    counts = tree._counts_or_own(counts)
    if counts is not None:
        counts = _checks.check_counts(counts, tree.num_classes)
    below = below_groups(tree, counts, step.batch)
    units = cut(tree, below.rows, below.work, top)
    loads = below_units(tree, below, counts, units)
    return Plan(tree, devices, unit_rows=units, unit_loads=loads, step=step)
