"""The sampled softmax as a Keras layer."""

import keras
import numpy as np
import tensorflow as tf

from tf_hsm import _checks
from tf_hsm.heads.class_sampler import SAMPLERS, ClassSampler
from tf_hsm.heads.sampled import SampledHead
from tf_hsm.layers import grown_layer, pruned_layer
from tf_hsm.layers.answering_layer import option
from tf_hsm.layers.head_layer import HeadLayer
from tf_hsm.layers.in_place import InPlace
from tf_hsm.layers.layer_arguments import documented
from tf_hsm.layers.objective import Objective
from tf_hsm.layers.row_options import RowOptions
from tf_hsm.layers.rows import RowSpec
from tf_hsm.runtime import arguments, gradients
from tf_hsm.tree import Tree, files
from tf_hsm.tree.pruned_tree import sums


@documented
@keras.saving.register_keras_serializable("tf_hsm")
class SampledSoftmax(HeadLayer):
    """A flat softmax that is trained on a sample of the classes.

    Where a gradient tape records, as in `fit`, an example is scored against its
    label and S other classes, which are drawn anew for each batch. With the
    expected counts q(c) of the draw and z_c = w_c . x + b_c, the loss of label
    y is

        lse over y and the drawn c != y of (z_c - log q(c)) - (z_y - log q(y))

    as in `tf.nn.sampled_softmax_loss` (Jean et al., 2015: On Using Very Large
    Target Vocabulary for Neural Machine Translation; Bengio and Senecal, 2008:
    Adaptive Importance Sampling to Accelerate Training of a Neural
    Probabilistic Language Model). It costs S + 1 classes, and its
    gradients are sparse: `tf.IndexedSlices` with the unique rows of the labels
    and of the drawn classes. With S = N its value equals the full softmax;
    with fewer it is another loss, with a lower value.

    Without a tape, as in `evaluate`, the loss is the loss of the full softmax,
    over all N classes. Within `tf.recompute_grad` it is always sampled. Call
    the head once per step there: with two calls, the gradient of one has
    another draw than its loss. `log_probs`, `log_prob`, `top_k`, `sample` and
    `predict_class` use all classes too. So does
    `tf_hsm.metrics.Perplexity`: in `fit` it costs a full softmax at each step.

    It is used as `tf_hsm.layers.HierarchicalSoftmax` is: in `compile(loss=
    head.loss)`, or with labels as an input of the model.

    >>> head = tf_hsm.layers.SampledSoftmax(50_000, num_sampled=1024)
    >>> model = keras.Sequential([body, head])
    >>> model.compile("sgd", loss=head.loss)

    A draw depends on `seed` and `step` alone, and `step` is saved with the
    weights. So training that is resumed draws what it would have drawn, and all
    replicas of `tf.distribute` draw the same classes. Draws are made on the
    CPU, from tables that the first one makes: 48 bytes for each class.

    Args:
      num_classes: N, the number of classes.
      num_sampled: S, how many classes are drawn for a batch; if more than N, N.
      sampler: the law of the draws. "log_uniform": class c in proportion to
        log((c + 2) / (c + 1)), for classes numbered by falling frequency;
        "uniform": all alike; "counts": by `counts ** power`. A class that would
        be drawn more than once is in every draw, once, and the others share the
        rest.
      counts: `[N]`, how often each class occurs; None: not known. The biases
        then begin at the log-frequencies. Saved only with sampler="counts".
      power: of the counts, at least 0: 1 is their own law, 0 the uniform one.
      seed: of the draws, an integer.
      {rows}
      {labels}
      {loss}
      {row_options}

    Where the loss is sampled, regularizers and constraints are for the rows of
    the labels and of the drawn classes.

    Attributes:
      kernel: the weights, `[N, width]`.
      bias: `[N]`, or None.
      step: how many draws have been made, an int64 that is saved as a weight.
      tree: the classes as a tree of one group.

    Raises:
      TypeError: `ignore_class` or `seed` is no integer.
      ValueError: an argument is out of range; the message names it.
    """

    sampler = option("_draws", "sampler")
    power = option("_draws", "power")

    _unsupported = (
        "node_labels",
        "label_smoothing",
        "smoothing_prior",
        "z_loss",
        "optimizer",
        "stochastic_rounding",
    )

    def __init__(
        self,
        num_classes,
        *,
        num_sampled,
        sampler="log_uniform",
        counts=None,
        power=0.75,
        seed=0,
        use_bias=True,
        kernel_initializer="glorot_uniform",
        bias_initializer="zeros",
        ignore_class=None,
        several_labels=False,
        class_weights=None,
        focal_gamma=0.0,
        kernel_regularizer=None,
        bias_regularizer=None,
        kernel_constraint=None,
        bias_constraint=None,
        **kwargs,
    ):
        num_classes = _checks.check_int("num_classes", num_classes, 1)
        num_sampled = _checks.check_int("num_sampled", num_sampled, 1)
        super().__init__(
            list,
            Objective(
                num_classes,
                ignore_class=ignore_class,
                several_labels=several_labels,
                class_weights=class_weights,
                focal_gamma=focal_gamma,
            ),
            RowSpec(use_bias, kernel_initializer, bias_initializer),
            RowOptions(
                kernel_regularizer,
                bias_regularizer,
                kernel_constraint,
                bias_constraint,
            ),
            InPlace(seed=seed),
            **kwargs,
        )
        if sampler not in SAMPLERS:
            raise ValueError(
                f"sampler is {sampler!r}; it must be one of {SAMPLERS}"
            )
        if counts is not None:
            counts = _checks.check_counts(counts, num_classes)
            if not use_bias and sampler != "counts":
                raise ValueError(
                    f"counts set the biases, but use_bias is False; with "
                    f"sampler={sampler!r} leave them out"
                )
        elif sampler == "counts":
            raise ValueError(
                "sampler is 'counts', but there are none; give counts=, how "
                "often each class occurs"
            )
        self.num_sampled = num_sampled
        self.tree = Tree.flat(num_classes)
        self.kernel = self.bias = None
        self._counts = counts
        self._draws = ClassSampler(
            sampler,
            num_classes,
            min(num_sampled, num_classes),
            counts,
            _checks.check_real("power", power, 0),
        )

    def _make_head(self, width):
        prior = None
        if self._counts is not None and self.use_bias:
            prior = self.tree.log_prior(self._counts)
        self.kernel, self.bias = self.rows.make(self, self.tree, width, prior)
        # Every replica counts for itself, and so alike.
        self.step = self.add_weight(
            name="step",
            shape=(),
            dtype="int64",
            initializer="zeros",
            trainable=False,
        )
        return SampledHead(
            self.kernel,
            self.bias,
            self.tree,
            self._draws,
            self.seed,
            self.step,
        )

    def _no_quantized_form(self):
        """See `AnsweringLayer`."""
        return "a SampledSoftmax has rows of floats alone"

    def embed(self, classes):
        """Returns the vectors `[..., width]` of classes: rows of the kernel.

        Only these rows are read, and they alone have a gradient.

        Args:
          classes: `[...]` integers.

        Raises:
          tf.errors.InvalidArgumentError: a class is not in [0, num_classes).
          TypeError: classes are not integers.
          ValueError: the layer is not built.
        """
        self.row_variables()  # an error if the layer is not built
        classes = arguments.integers(classes, "classes")
        rows = tf.reshape(classes, [-1])
        is_class = arguments.in_range(rows, self.num_classes, "classes")
        found = gradients.look_up(self.kernel, tf.where(is_class, rows, 0))
        shape = tf.concat([tf.shape(classes), [self.hidden_width]], 0)
        return tf.cast(tf.reshape(found, shape), self.compute_dtype)

    def grow(self, num_classes, counts=None):
        """Returns a layer for more classes that has learned what this one has.

        The old classes keep their weights and biases, and their odds against
        each other. A new class begins with the mean weights and its share of
        the counts. The draws go on from the same step. See
        `HierarchicalSoftmax.grow`.

        >>> head = head.grow(head.num_classes + 100)

        Args:
          num_classes: how many classes there are now.
          counts: `[num_classes]`, how often each class occurs, also for a
            sampler "counts"; all alike when None, where that sampler keeps the
            counts of the old classes and takes their mean for a new one.

        Raises:
          ValueError: the layer is not built; there are fewer classes than
            before; or the counts are not one for each class.
        """
        num_classes = _checks.check_int("num_classes", num_classes, 1)
        config = {"num_classes": num_classes}
        if self.sampler == "counts":
            config["counts"] = files.pack_counts(
                _grown_counts(self._counts, num_classes, counts)
            )
        layer = grown_layer.grow(self, Tree.flat(num_classes), counts, config)
        layer.step.assign(self.step.value)
        return layer

    def prune(self, keep, *, merge=True, counts=None):
        """Returns a layer for fewer classes, with the rows of this one.

        See `HierarchicalSoftmax.prune` for arguments, result and errors. There
        is one group, so classes cannot merge: pass `merge=False`, and the kept
        classes have the softmax over their own rows. The draws go on from the
        same step.
        """
        if counts is None:
            counts = self._counts

        def config(pruned):
            changes = {"num_classes": pruned.tree.num_classes}
            if self.sampler == "counts":
                changes["counts"] = files.pack_counts(
                    sums(pruned.classes, self._counts)
                )
            return changes

        pruned = pruned_layer.prune(self, keep, merge, counts, config)
        pruned.head.step.assign(self.step.value)
        return pruned

    def _own_config(self):
        config = {
            "num_classes": self.num_classes,
            "num_sampled": self.num_sampled,
            "sampler": self.sampler,
            "power": self.power,
        }
        if self.sampler == "counts":
            config["counts"] = files.pack_counts(self._counts)
        return config

    @classmethod
    def _arguments_of(cls, config):
        counts = config.get("counts")
        if counts is not None:
            counts = files.unpack_counts(counts)
        return {**config, "counts": counts}


def _grown_counts(counts, num_classes, given):
    """Returns the counts `[num_classes]` of the sampler of a larger layer."""
    if given is not None:
        return _checks.check_counts(given, num_classes)
    new = np.full(max(num_classes - counts.size, 0), counts.mean())
    return np.append(counts.astype(np.float64), new)
