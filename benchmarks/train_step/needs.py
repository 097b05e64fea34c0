"""What a training step needs, for refusing it untried."""

from benchmarks.common import implementations, limits
from benchmarks.train_step import steps

# How many copies of the gradient of the touched rows our optimizers make, the
# gradient included, each in float32 at least (measured: up to this).
_COPIES = {
    "sgd": 2,
    "adagrad": 5,
    "rowwise_adagrad": 3.5,
    "lazy_adam": 6.5,
}
# More for 16-bit weights: the gradient before it is widened, and the rows read.
_COPIES_OF_SHORT = 1.5
# Keras' optimizers make tensors of the size of the weights (measured: up to
# this many at once), and pass over such tensors at least this often.
_STOCK_TABLES = {"sgd": 0, "adagrad": 2, "rowwise_adagrad": 2, "lazy_adam": 4}
_STOCK_PASSES = {
    "sgd": 0,
    "adagrad": 4,
    "rowwise_adagrad": 4,
    "lazy_adam": 26,
}


def extra_bytes(name, rule, tree, case, work):
    """Estimates what an implementation needs beside parameters and slots.

    Keras fills the slots of Adagrad through a second tensor of their size,
    whose memory TensorFlow keeps for the steps.

    Args:
      name: one of `steps.IMPLEMENTATIONS`.
      rule: one of `steps.RULES`.
      tree: the tree of the case.
      case: a `Case`.
      work: `floors.Work`.
    """
    making = 0
    if "adagrad" in rule:
        making = steps.slot_bytes(name, rule, tree.num_rows, case)
    return max(making, _step_bytes(name, rule, tree, case, work))


def _step_bytes(name, rule, tree, case, work):
    if name == steps.GATHER_STOCK:
        table = implementations.parameter_bytes(tree.num_rows, case)
        gather = limits.step_bytes("gather", "sgd", tree, case, work)
        return gather + _STOCK_TABLES[rule] * table
    probs = limits.step_bytes("ours", "forward", tree, case, work)
    if name == steps.IN_PLACE:
        return probs
    wide = steps.slot_itemsize(case)
    copies = _COPIES[rule]
    if wide > implementations.itemsize(case):
        copies += _COPIES_OF_SHORT
    touched = int(work.touched_rows.sum()) * (case.sizes.width + 1) * wide
    return probs + int(copies * touched)


def step_seconds(name, rule, tree, case, rates):
    """Estimates how long a slow step takes, at least; 0 for others."""
    if name != steps.GATHER_STOCK:
        return limits.step_seconds("ours", "sgd", tree, case, rates)
    table = implementations.parameter_bytes(tree.num_rows, case)
    return (
        limits.step_seconds("gather", "sgd", tree, case, rates)
        + _STOCK_PASSES[rule] * table / rates.read_write
    )
