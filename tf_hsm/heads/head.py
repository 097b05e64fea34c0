"""The interface of every head, and the arguments of its losses."""

import dataclasses
import typing

from tf_hsm.ops.gradient_step import GradientStep


@dataclasses.dataclass(frozen=True, eq=False)
class PathOptions:
    """Options of the loss along the path of a label.

    To add an option: a field here, an argument of `hierarchical_softmax_loss`
    and of `loss_options`, and a line in `TreeHead._loss_outputs` and in
    `Objective._path`. Label trees and sampled losses take no path options.

    Attributes:
      label_smoothing: see `tf_hsm.hierarchical_softmax_loss`.
      smoothing_prior: what `Head.prior` returned, or None for an even prior.
      nodes: whether labels are rows of the tree instead of classes.
      z_loss: see `tf_hsm.hierarchical_softmax_loss`.
    """

    label_smoothing: float = 0.0
    smoothing_prior: typing.Any = None
    nodes: bool = False
    z_loss: float = 0.0

    def of_part(self, number):
        """Returns the options for part `number` of a head made of parts."""
        if self.smoothing_prior is None:
            return self
        prior = self.smoothing_prior[number]
        return dataclasses.replace(self, smoothing_prior=prior)


@dataclasses.dataclass(frozen=True, eq=False)
class Batch:
    """Labels whose losses are asked for.

    Attributes:
      labels: `[...]`, integers; `[..., M]` for a label tree.
      inputs: `[..., width]`.
      ignored: a list of labels that stand for no class; their loss is 0.
      path: the `PathOptions`.
      training: whether a tape records or will, so that a `SampledHead` looks at
        a sample of the classes.
      step: the `GradientStep` that the losses' gradient makes, or None.
      penalties: None; or what penalizes the rows that labels touch, by its
        methods `of_paths(head, batch, losses)` and `of_rows(weights, biases)`.
    """

    labels: typing.Any
    inputs: typing.Any
    ignored: typing.Sequence[int] = ()
    path: PathOptions = PathOptions()
    training: bool = False
    step: GradientStep | None = None
    penalties: typing.Any = None


class Head(typing.Protocol):
    """Rows of weights that score the classes of a tree.

    Attributes:
      num_classes: N.
    """

    num_classes: int

    def losses(self, batch):
        """Returns the loss `[...]` of each label of a `Batch`, in nats.

        With `batch.step`, the gradient of the losses updates the rows in place.
        """

    def prior(self, counts):
        """Returns the `PathOptions.smoothing_prior` for counts `[N]`."""

    def log_prob(self, classes, inputs, **options):
        """Returns log-probabilities `[..., C]` of given classes, in nats."""

    def top_k(self, inputs, k, **options):
        """Returns the k best classes, a `TopK` of `[..., k]` each."""

    def best_class(self, inputs):
        """Returns the most probable class of each input, `[...]` int64."""

    def log_probs(self, inputs, **options):
        """Returns log-probabilities `[..., N]` of all classes, in nats."""

    def sample(self, inputs, num_samples, **options):
        """Draws classes `[..., num_samples]` by their probabilities."""

    def tree_heads(self):
        """Returns the heads of one tree or forest each that have the rows.

        A list: the head itself, or the heads of its parts, the top's first.
        """

    def variables(self):
        """Returns the weights and biases of all parts, a list."""

    def on_one_device(self):
        """Returns the same head with all rows on the default device."""
