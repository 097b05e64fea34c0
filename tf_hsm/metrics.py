"""Keras metrics."""

import functools

import keras
from keras import ops

from tf_hsm import _checks, _compiled_model, _head_output
from tf_hsm._reduction import broadcast_weights
from tf_hsm.runtime import label_sets, private_keras


def _telling_lost_values(update_state):
    """Decorates a metric's `update_state`."""

    @functools.wraps(update_state)
    def update(self, y_true, y_pred, sample_weight=None):
        with _head_output.lost_values_told(y_pred):
            update_state(self, y_true, y_pred, sample_weight)

    return update


@keras.saving.register_keras_serializable("tf_hsm")
class Perplexity(_compiled_model.ReadsHead, keras.metrics.Metric):
    """The exponential of the mean loss per label, over all batches so far.

    In `model.compile(metrics=[...])`, with a model whose output is a head's, it
    takes the losses that the training loss has made already. Ignored and
    masked labels do not count.

    Args:
      name: the name of the metric.
      dtype: the type of the sums, float32 by default.
    """

    def __init__(self, *, name="perplexity", dtype=None):
        """See the class."""
        super().__init__(name=name, dtype=dtype)
        self.total = self.add_weight(name="total", initializer="zeros")
        self.count = self.add_weight(name="count", initializer="zeros")

    @_telling_lost_values
    def update_state(self, y_true, y_pred, sample_weight=None):
        """Adds a batch.

        Args:
          y_true: labels, `[...]` or `[..., 1]`; not used when `y_pred` are
            losses.
          y_pred: the output of a head, `[..., width]`; or losses in nats,
            `[...]`.
          sample_weight: broadcast from the left to the losses; or None. Of
            several labels for each input, `[..., M]`: then the mean is over
            their sum.

        Raises:
          ValueError: `y_pred` is neither.
        """
        if _head_output.is_placeholder(y_pred):
            return
        output, mass = _head_output.find(y_pred), None
        if output is not None and output.labels is None:
            objective = output.layer.objective
            sample_weight, label_weights = objective.split_weights(
                sample_weight, y_true
            )
            losses, mask, *_ = output.layer.label_losses(
                output, y_true, label_weights, reuse=True
            )
            if label_weights is not None:
                mass = objective.label_mass(
                    y_true, output.inputs, label_weights, self.dtype
                )
        elif output is not None or _are_losses(y_pred, y_true):
            losses, mask = y_pred, private_keras.mask_of(y_pred)
            mass = getattr(output, "label_mass", None)
        else:
            raise ValueError(
                f"y_pred, of shape {tuple(y_pred.shape)}, is neither the "
                "output of a tf_hsm head nor losses for y_true, of shape "
                f"{tuple(y_true.shape)}"
            )
        losses = ops.cast(losses, self.dtype)
        weights = ops.ones_like(losses)
        if mask is not None:
            weights = weights * ops.cast(mask, self.dtype)
        if sample_weight is not None:
            weights = weights * broadcast_weights(sample_weight, losses)
        self.total.assign_add(ops.sum(losses * weights))
        if mass is not None:
            weights = weights * ops.cast(mass, self.dtype)
        self.count.assign_add(ops.sum(weights))

    def result(self):
        """Returns the perplexity; 1 before the first label."""
        return ops.exp(ops.divide_no_nan(self.total, self.count))


def _are_losses(y_pred, labels):
    """Returns whether `y_pred` without a head may be losses of labels.

    Scores, `[..., classes]`, have a dimension more than labels, `[...]`.
    """
    return labels is None or len(y_pred.shape) <= len(labels.shape)


class _OfTheBest(_compiled_model.ReadsHead, keras.metrics.Metric):
    """The mean over the inputs of a score of their k most probable classes.

    A subclass has a `default_name`, and `_scores(output, labels, mask,
    sample_weight)`, which takes the `HeadOutput`, labels and weights as given,
    and the mask of `y_pred` or None. It returns the scores `[...]` of inputs;
    `[...]` bool, the inputs that count, or None; and weights that broadcast
    from the left, or None.

    Args:
      k: how many classes.
      name: the name of the metric; None: `default_name` with k in it.
      dtype: the type of the sums.

    Raises:
      ValueError: `k` is below 1.
    """

    def __init__(self, k, name, dtype):
        """See the class."""
        self.k = _checks.as_integer("k", k)
        if self.k < 1:
            raise ValueError(f"k = {k} is below 1")
        super().__init__(
            name=name or self.default_name.format(self.k), dtype=dtype
        )
        self.mean = keras.metrics.Mean(name="mean", dtype=dtype)

    @_telling_lost_values
    def update_state(self, y_true, y_pred, sample_weight=None):
        """Adds a batch.

        Args:
          y_true: labels, in the shape that the class describes; not used when
            `y_pred` are a head's losses.
          y_pred: what a head returned for its inputs, or for these and labels.
          sample_weight: broadcast from the left to the inputs; or None.

        Raises:
          ValueError: `y_pred` did not come from a head, or the metric cannot
            score the classes of this head.
        """
        if _head_output.is_placeholder(y_pred):
            return
        output = _head_output.require(y_pred, or_losses=True)
        labels = y_true if output.labels is None else output.labels
        scores, mask, sample_weight = self._scores(
            output, labels, private_keras.mask_of(y_pred), sample_weight
        )
        scores = ops.cast(scores, self.dtype)
        weights = broadcast_weights(sample_weight, scores)
        if mask is not None:
            counts = ops.cast(mask, self.dtype)
            weights = counts if weights is None else weights * counts
        self.mean.update_state(scores, weights)

    def result(self):
        """Returns the mean; 0 before the first batch."""
        return self.mean.result()

    def reset_state(self):
        """Forgets all batches."""
        self.mean.reset_state()

    def get_config(self):
        """The arguments of the constructor."""
        return {**super().get_config(), "k": self.k}


@keras.saving.register_keras_serializable("tf_hsm")
class TopKAccuracy(_OfTheBest):
    """How often the label is among the k most probable classes.

    A label at an inner node is among them where one of them is below it.

    The classes are found by exact search through the tree
    (`tf_hsm.hierarchical_softmax_top_k`), so that it costs more than a loss: in
    `model.compile(weighted_metrics=[...])` it runs at each training step too,
    before the head has changed. Ignored and masked labels do not count.

    Labels are `[...]` or `[..., 1]`, one for each input.

    Args:
      k: how many classes, at least 1; where the tree has fewer, all.
      name: the name of the metric; None: `top_<k>_accuracy`.
      dtype: the type of the sums, float32 by default.

    Raises:
      ValueError: `k` is below 1.
    """

    default_name = "top_{}_accuracy"

    def __init__(self, k=5, *, name=None, dtype=None):
        """See the class."""
        super().__init__(k, name, dtype)

    def _scores(self, output, labels, mask, sample_weight):
        layer = output.layer
        if layer.several_labels:
            raise ValueError(
                f"{self.name} is for one label per input, but {layer.name} has "
                "several labels: take tf_hsm.metrics.PrecisionAtK"
            )
        labels, mask = layer.objective.read_one(labels, output.inputs, mask)
        classes = output.best_classes(min(self.k, layer.num_classes))
        hits = ops.any(layer.hits(classes, labels), -1)
        return hits, mask, sample_weight


@keras.saving.register_keras_serializable("tf_hsm")
class PrecisionAtK(_OfTheBest):
    """How many of the k most probable classes are labels of their input.

        P@k = mean over the inputs of |labels among the k best| / k

    It is the measure of extreme classification. A label at an inner node is
    found by each of the k best classes below it. An input without labels counts
    as 0, and masked ones do not count. The k best are found by exact search: in
    `model.compile(weighted_metrics=[...])` it runs at each training step too.

    Labels are `[..., M]` or ragged; a negative number stands for no label. For
    a multi-hot matrix there is `tf_hsm.label_lists`.

    Args:
      k: how many labels, at least 1 and at most as the head has classes.
      name: the name of the metric; None: `precision_at_<k>`.
      dtype: the type of the sums, float32 by default.

    Raises:
      ValueError: `k` is below 1.
    """

    default_name = "precision_at_{}"

    def __init__(self, k=1, *, name=None, dtype=None):
        """See the class."""
        super().__init__(k, name, dtype)

    def _scores(self, output, labels, mask, sample_weight):
        layer = output.layer
        if self.k > layer.num_classes:
            raise ValueError(
                f"{self.name}: k = {self.k}, but {layer.name} has "
                f"{layer.num_classes} classes"
            )
        weights, of_labels = layer.objective.split_weights(
            sample_weight, labels
        )
        # Weights of labels are not weights of inputs: every input counts once.
        if of_labels is None or of_labels.shape[-1] != 1:
            sample_weight = weights
        labels = layer.objective.read_sets(
            labels, output.inputs, tree=getattr(layer, "tree", None)
        )
        labels = ops.cast(labels, "int64")
        found = output.best_classes(self.k)
        hits = layer.hits(found[..., None, :], labels)
        hits &= (labels != label_sets.NONE)[..., None]
        hits = ops.any(hits, -2)
        precision = ops.mean(ops.cast(hits, self.dtype), -1)
        # The mask of losses leaves out the inputs without a label too.
        return precision, output.inputs_mask, sample_weight
