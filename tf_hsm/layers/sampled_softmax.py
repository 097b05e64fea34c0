"""The sampled softmax as a Keras layer."""

import contextlib

import keras
import numpy as np
import tensorflow as tf

from tf_hsm import _checks
from tf_hsm.layers._class_sampler import SAMPLERS, ClassSampler
from tf_hsm.layers._head_layer import HeadLayer
from tf_hsm.layers._predictions import Predictions
from tf_hsm.layers._row_options import RowOptions
from tf_hsm.layers._row_variables import RowVariables
from tf_hsm.layers._training_loss import TrainingLoss, unpacked
from tf_hsm.layers._whole_head import WholeHead
from tf_hsm.runtime import arguments
from tf_hsm.tree import Tree, files


@keras.saving.register_keras_serializable("tf_hsm")
class SampledSoftmax(Predictions, RowOptions, TrainingLoss, HeadLayer):
    """A flat softmax that is trained on a sample of the classes.

    In training, an example is scored against its label and S other classes,
    which are drawn anew for each batch. With the expected counts q(c) of the
    draw and z_c = w_c . x + b_c, the loss of label y is

        lse over y and the drawn c != y of (z_c - log q(c)) - (z_y - log q(y))

    as in `tf.nn.sampled_softmax_loss` (Jean et al., 2015: On Using Very Large
    Target Vocabulary for Neural Machine Translation; Bengio and Senecal, 2008:
    Adaptive Importance Sampling to Accelerate Training of a Neural
    Probabilistic Language Model). Its cost is that of S + 1 classes, and its
    gradients are sparse: `tf.IndexedSlices` with unique rows, those of the
    labels and of the drawn classes. With S = N its value is that of the full
    softmax; with fewer it is another loss, with a lower value.

    Otherwise, in `evaluate` and in a call that is not for training, the loss is
    that of the full softmax, over all N classes. So are `log_probs`,
    `log_prob`, `top_k`, `sample` and `predict`. `tf_hsm.metrics.Perplexity`
    thus tells that of the sampled loss in `fit`, the true one in `evaluate`.

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
      num_classes: N.
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
      use_bias: whether each class has a bias.
      ignore_class: a label whose loss is 0 and does not count, or None.
      kernel_initializer: for the kernel, `[N, width]`.
      bias_initializer: for the bias, `[N]`, where there are no counts.
      **kwargs: as for every Keras layer: `name`, `dtype`, `trainable`;
        `several_labels`, `class_weights` and `focal_gamma`, as for
        `HierarchicalSoftmax`, of the loss in training; and
        `kernel_regularizer`, `bias_regularizer`, `kernel_constraint` and
        `bias_constraint`, which in training are for the rows of the labels and
        of the drawn classes: see `tf_hsm.layers`.

    Attributes:
      kernel: the weights, `[N, width]`.
      bias: `[N]`, or None.
      step: how many draws have been made, an int64 that is saved as a weight.
      tree: the classes as a tree of one group.

    Raises:
      TypeError: `ignore_class` or `seed` is no integer.
      ValueError: an argument is out of range; names it.
    """

    # It has none of its own: what is drawn has a small gradient.
    optimizer = None

    def __init__(
        self,
        num_classes,
        num_sampled,
        sampler="log_uniform",
        counts=None,
        power=0.75,
        seed=0,
        use_bias=True,
        ignore_class=None,
        kernel_initializer="glorot_uniform",
        bias_initializer="zeros",
        **kwargs,
    ):
        """See the class."""
        super().__init__(ignore_class, **kwargs)
        self.num_classes = _checks.check_int("num_classes", num_classes, 1)
        self.num_sampled = _checks.check_int("num_sampled", num_sampled, 1)
        self.check_training_loss()
        if sampler not in SAMPLERS:
            raise ValueError(
                f"sampler is {sampler!r}; it must be one of {SAMPLERS}"
            )
        if counts is not None:
            counts = _checks.check_counts(counts, self.num_classes)
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
        self.sampler = sampler
        self.power = arguments.exponent("power", power)
        self.seed = _checks.as_integer("seed", seed)
        self.use_bias = use_bias
        self.kernel_initializer = keras.initializers.get(kernel_initializer)
        self.bias_initializer = keras.initializers.get(bias_initializer)
        self.tree = Tree.balanced(self.num_classes, [self.num_classes])
        self._counts = counts
        self._draws = ClassSampler(
            sampler,
            self.num_classes,
            min(self.num_sampled, self.num_classes),
            counts,
            self.power,
        )
        self.bias = None

    def build(self, inputs_shape, labels_shape=None):
        """Makes the variables for inputs `[..., width]`."""
        del labels_shape
        prior = None
        if self._counts is not None and self.use_bias:
            prior = self.tree.log_prior(self._counts)
        variables = RowVariables(self, self.width_of(inputs_shape), prior)
        self.kernel, self.bias = variables.whole()
        # Every replica counts for itself, and so alike.
        self.step = self.add_weight(
            name="step",
            shape=(),
            dtype="int64",
            initializer="zeros",
            trainable=False,
        )
        self._head = WholeHead(self.kernel, self.bias, self.tree)

    def compute_losses(self, labels, inputs, ignored, loss_weights):
        """Returns the loss per label, over all classes."""
        del loss_weights
        return self._head.loss(labels, inputs, ignored, self.add_penalties)

    def training_losses(self, labels, inputs, ignored, loss_weights):
        """Returns the loss per label, over those that are drawn for it."""
        del loss_weights
        inputs = arguments.floats(inputs, self.variable_dtype)
        width = self.kernel.shape[1]
        if inputs.shape[-1] not in (None, width):
            raise ValueError(
                f"inputs, of shape {inputs.shape}, must have {width} as the "
                "last dimension, as the kernel has"
            )
        flat = tf.reshape(tf.cast(labels, tf.int64), [-1])
        kept = tf.where(
            arguments.kept_classes(
                flat,
                self.num_classes,
                "labels",
                arguments.counted(flat, ignored),
            )
        )
        losses = self._sampled_losses(
            tf.gather_nd(flat, kept),
            tf.gather_nd(tf.reshape(inputs, [-1, width]), kept),
        )
        losses = tf.scatter_nd(kept, losses, tf.shape(flat, tf.int64))
        return tf.reshape(losses, tf.shape(labels))

    def _sampled_losses(self, labels, inputs):
        """The losses `[B]` of labels `[B]`, which are classes."""
        sampled = self._draws.draw(self.seed, self.step.value, self.kernel)
        self.step.assign_add(1)
        dtype = tf.as_dtype(self.loss_dtype)
        inputs = tf.cast(inputs, dtype)
        classes = tf.concat([labels, sampled], 0)
        # Each row once, in order: what optimizers want of a gradient.
        rows = tf.sort(tf.unique(classes).y)
        places, batch = tf.searchsorted(rows, classes), tf.size(labels)
        of_labels, of_sampled = places[:batch], places[batch:]
        weights = tf.gather(self.kernel.value, rows)
        biases = None
        if self.bias is not None:
            biases = tf.gather(self.bias.value, rows)
        self.add_penalties_of(weights, biases)
        offsets = -tf.math.log(self._draws.expected(rows, self.kernel))
        offsets = tf.cast(offsets, dtype)
        if biases is not None:
            offsets += tf.cast(biases, dtype)
        weights = tf.cast(weights, dtype)
        label_logits = tf.reduce_sum(
            inputs * tf.gather(weights, of_labels), -1
        ) + tf.gather(offsets, of_labels)
        logits = tf.matmul(
            inputs, tf.gather(weights, of_sampled), transpose_b=True
        ) + tf.gather(offsets, of_sampled)
        # The label itself, drawn by chance, is no other class.
        is_label = labels[:, tf.newaxis] == sampled
        logits = tf.where(is_label, tf.constant(dtype.min, dtype), logits)
        return tf.nn.sparse_softmax_cross_entropy_with_logits(
            labels=tf.zeros_like(labels),
            logits=tf.concat([label_logits[:, tf.newaxis], logits], 1),
        )

    def on_one_device(self):
        """Within, the head answers from one device, as it always does."""
        return contextlib.nullcontext()

    def get_config(self):
        """Returns the arguments of the constructor, as JSON can hold them."""
        config = {
            **super().get_config(),
            "num_classes": self.num_classes,
            "num_sampled": self.num_sampled,
            "sampler": self.sampler,
            "power": self.power,
            "seed": self.seed,
            "use_bias": self.use_bias,
            "kernel_initializer": keras.initializers.serialize(
                self.kernel_initializer
            ),
            "bias_initializer": keras.initializers.serialize(
                self.bias_initializer
            ),
        }
        if self.sampler == "counts":
            config["counts"] = {
                "is_float": self._counts.dtype.kind == "f",
                **files.pack(self._counts.view(np.int64)),
            }
        return config

    @classmethod
    def from_config(cls, config):
        """Makes the layer that `get_config` described."""
        counts = config.get("counts")
        if counts is not None:
            dtype = np.float64 if counts["is_float"] else np.int64
            counts = files.unpack(counts).view(dtype)
        return cls(**unpacked({**config, "counts": counts}))
