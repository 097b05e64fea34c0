"""Steps in place on the parts of a head, which together are one step."""

from tf_hsm.ops.in_place_step import InPlaceStep, rule_of


class PartSteps:
    """A step of an optimizer on several weights, each by its own labels.

    All have the rate of the same step, and together they count as one.

    Args:
      optimizer: one that can step in place, built with all variables.
      stochastic_rounding: see `hierarchical_softmax_train_step`.
      seed: likewise. Each part rounds by other numbers.
    """

    def __init__(self, optimizer, stochastic_rounding, seed):
        """See the class."""
        self._optimizer = optimizer
        self._stochastic_rounding = stochastic_rounding
        self._seed = seed
        self._rule = rule_of(optimizer)
        self._steps = []

    def losses(
        self,
        weights,
        biases,
        labels,
        inputs,
        tree,
        loss_weights,
        ignore_class=None,
    ):
        """Makes the step on one part; returns the losses `[...]`.

        See `hierarchical_softmax_train_step` for the arguments.
        """
        step = InPlaceStep(
            weights=weights,
            biases=biases,
            labels=labels,
            tree=tree,
            optimizer=self._optimizer,
            loss_weights=loss_weights,
            ignore_class=ignore_class,
            stochastic_rounding=self._stochastic_rounding,
            seed=self._seed + (len(self._steps) << 32),
            rule=self._rule,
        )
        self._steps.append(step)
        return step.losses(inputs)

    def count(self, losses):
        """Counts the step once the losses of all parts are there."""
        self._steps[0].count(losses)
