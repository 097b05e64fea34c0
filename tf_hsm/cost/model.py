"""The time of a training step for the groups that a batch touches.

Grave et al. (2016: Efficient softmax approximation for GPUs) model the product
of k rows and B examples as `g(k, B) = max(c + lambda k0 B0, c + lambda k B)`.
Here it also depends on the width D of the rows, and reading the weights and
writing their gradient, which does not grow with the examples, is apart:

    ms = call + weight k D + max(floor, k B (logit + product D))
"""

import dataclasses
import numbers

import numpy as np

# Far beyond any machine, and no product of it overflows.
_MAX_CONSTANT = 1e9


@dataclasses.dataclass(frozen=True, kw_only=True)
class CostModel:
    """Predicts the time of the loss and its gradients, forward and backward.

    The defaults are rounded from two cores with AVX-512 and float32 weights.
    `tf_hsm.estimation.calibrate().cost_model` scales them to this machine.

    Attributes:
      call: ms of a call of the op, whatever its arguments; the paper's c.
      floor: ms that the products of a group take at least; lambda k0 B0.
      weight: ms for each weight of a touched row.
      logit: ms for each logit beside its products.
      product: ms for each product in the logits; lambda / D.

    Raises:
      ValueError: a constant is negative, not finite or above 1e9.
    """

    call: float = 0.4
    floor: float = 0.0
    weight: float = 1.3e-6
    logit: float = 1.4e-6
    product: float = 3.1e-8

    def __post_init__(self):
        """Checks the constants."""
        for name, value in dataclasses.asdict(self).items():
            is_real = isinstance(value, numbers.Real)
            if not is_real or not 0 <= value <= _MAX_CONSTANT:
                raise ValueError(
                    f"{name} of the cost model is {value!r}; it must be a "
                    f"number from 0 to {_MAX_CONSTANT:g}"
                )

    def weights(self, rows, *, width):
        """Returns the milliseconds to read and write touched rows.

        All arguments may be numbers, or arrays that broadcast.

        Args:
          rows: how many there are.
          width: D, the width of a row.
        """
        return self.weight * width * rows

    def products(self, rows, examples, *, width):
        """Returns the milliseconds to score rows, without `weights`.

        Args:
          rows: how many each example scores.
          examples: B, the number of examples.
          width: D, the width of a row.
        """
        logit = self.logit + self.product * width
        return np.maximum(self.floor, logit * rows * examples)

    def milliseconds(self, rows, examples, *, width):
        """Returns the milliseconds of a call on one group.

        Args:
          rows: k, the group's fanout.
          examples: B, the number of examples.
          width: D, the width of a row.
        """
        return (
            self.call
            + self.weights(rows, width=width)
            + self.products(rows, examples, width=width)
        )
