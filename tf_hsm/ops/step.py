"""One step of an optimizer in place, on one or several parts of a head."""

from tf_hsm.ops.copies_step import step_on_copies
from tf_hsm.ops.in_place_step import InPlaceStep, rule_of


class Step:
    """A step of an optimizer on several weights, each by labels of its own.

    All parts use the learning rate of the same step, which counts once:

    >>> step = Step(optimizer)
    >>> losses = step.part(weights=..., labels=..., ...).losses(inputs)
    >>> step.count(losses)

    Args:
      optimizer: one that can step in place, built with all variables.
      stochastic_rounding: see `hierarchical_softmax_train_step`.
      seed: of the rounding, an integer. Each part rounds by other numbers.
    """

    def __init__(self, optimizer, stochastic_rounding=None, seed=0):
        """See the class."""
        self._optimizer = optimizer
        self._stochastic_rounding = stochastic_rounding
        self._seed = seed
        self._rule = rule_of(optimizer)
        self._num_parts = 0
        self._last = None

    def part(self, kind=InPlaceStep, **arguments):
        """Returns an `InPlaceStep` on one part.

        Args:
          kind: the class of the step.
          **arguments: the other arguments of that class.
        """
        part = kind(
            optimizer=self._optimizer,
            stochastic_rounding=self._stochastic_rounding,
            seed=self._seed + (self._num_parts << 32),
            rule=self._rule,
            **arguments,
        )
        self._num_parts += 1
        self._last = part
        return part

    def skip(self, num_parts):
        """Leaves numbers for parts that other replicas make."""
        self._num_parts += num_parts

    def losses_on_copies(self, losses_of, inputs, variables, loss_weights):
        """Ends the step, on rows of which each replica has a copy.

        See `step_on_copies`, which counts the step.
        """
        self._last = None
        return step_on_copies(
            losses_of, inputs, variables, loss_weights, self._optimizer
        )

    def count(self, losses):
        """Counts the step, if it has not ended, once all losses are there."""
        if self._last is not None:
            self._last.count(losses)
