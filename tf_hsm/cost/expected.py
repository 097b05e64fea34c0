"""The expected cost of a tree for labels drawn by given counts."""

import dataclasses

import numpy as np

from tf_hsm import _checks
from tf_hsm._units import digits, short
from tf_hsm.cost.model import CostModel

_FLOAT_BYTES = 4  # of float32


@dataclasses.dataclass(frozen=True)
class ExpectedCost:
    """The means of one step, forward and backward, over batches of labels.

    A step is the loss of a batch and its gradients by weights and inputs. An
    example scores all rows of each group on its label's path; a batch touches
    the rows of each group that any of its examples scores.

    Attributes:
      rows_per_example: the rows that one example scores.
      touched_rows: the rows that a batch touches: the rows of the weights'
        gradient, a `tf.IndexedSlices`.
      flops: 2 for each product in the logits, in the gradient by the inputs
        and in that by the weights: 6 batch width rows_per_example.
      bytes: those that float32 numbers must move, if each moves once for each
        use: touched weights read and their gradient written; inputs read in
        the forward and in the backward, and their gradient written; a
        probability of each scored row written and read.
      milliseconds: the prediction of the cost model for one call of the op.
      batch: B, the examples in a batch.
      width: D, of the inputs.
    """

    rows_per_example: float
    touched_rows: float
    flops: float
    bytes: float
    milliseconds: float
    batch: int
    width: int

    def __str__(self):
        """Returns two lines to read."""
        return (
            f"{self.rows_per_example:,.1f} rows per example; a batch of "
            f"{self.batch:,} touches {self.touched_rows:,.0f} rows\n"
            f"a step at width {self.width:,}: {short(self.flops)}FLOP, "
            f"{short(self.bytes)}B moved, about {digits(self.milliseconds)} ms"
        )


def expected_cost(fanouts, masses, batch, width, cost_model):
    """See `Tree.expected_cost`.

    Args:
      fanouts: `[G]`, the rows of each group.
      masses: `[G]`, the probability that a label passes each group.
      batch: an int or None.
      width: an int or None.
      cost_model: a `CostModel` or None.
    """
    rows = float(fanouts @ masses)
    if batch is None and width is None and cost_model is None:
        return rows
    if batch is None or width is None:
        raise ValueError(
            f"batch is {batch} and width is {width}; a step has both, and a "
            "cost_model predicts a step"
        )
    batch = _check_size("batch", batch)
    width = _check_size("width", width)
    if cost_model is None:
        cost_model = CostModel()
    if not isinstance(cost_model, CostModel):
        raise TypeError(
            f"cost_model must be a CostModel, not {type(cost_model).__name__}"
        )
    with np.errstate(divide="ignore"):  # log 0: a group that all pass
        touched = -np.expm1(batch * np.log1p(-masses))
    touched_rows = float(fanouts @ touched)
    numbers = width * (2 * touched_rows + 3 * batch) + 2 * batch * rows
    # The examples of a touched group are taken to be as many as their mean.
    with np.errstate(invalid="ignore"):  # 0 / 0: a group that none passes
        examples = np.where(touched > 0, batch * masses / touched, 0)
    products = cost_model.products(fanouts, examples, width=width)
    ms = cost_model.call + cost_model.weights(touched_rows, width=width)
    return ExpectedCost(
        rows_per_example=rows,
        touched_rows=touched_rows,
        flops=6.0 * batch * width * rows,
        bytes=float(_FLOAT_BYTES * numbers),
        milliseconds=float(ms + touched @ products),
        batch=batch,
        width=width,
    )


def _check_size(name, value):
    value = _checks.check_int(name, value, 1)
    if value >= 2**63:
        raise ValueError(f"{name} is {value}; it must be below 2**63")
    return value
