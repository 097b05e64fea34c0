"""An adaptive softmax as the input embedding."""

import functools

import keras
import tensorflow as tf

from tf_hsm.layers._head_layer import prior_initializer
from tf_hsm.layers._initial_values import by_blocks, of_pairs
from tf_hsm.layers._own_optimizer import without_gradient
from tf_hsm.ops.in_place_step import rule_of
from tf_hsm.ops.rows_step import gather_to_step
from tf_hsm.partition import routing
from tf_hsm.runtime import arguments
from tf_hsm.runtime.tree_tensors import path_tensors


class AdaptiveEmbedding:
    """`embed` of `AdaptiveSoftmax`."""

    def call(
        self,
        inputs,
        labels=None,
        sample_weight=None,
        inputs_mask=None,
        training=False,
        embed=False,
    ):
        """Takes inputs to losses, to classes, or through; or classes to rows.

        Args:
          inputs: `[..., width]`; with `embed`, classes `[...]`.
          labels: see `HierarchicalSoftmax.call`; so is the rest.
          sample_weight: the weights of the losses in the mean.
          inputs_mask: `[...]` bool, the inputs that count.
          training: whether the layer's own optimizer, if there is one, makes a
            step, and classes are not asked for.
          embed: whether to return the vectors `[..., width]` of classes, as
            `embed` does.

        What is embedded for training gets its step from an optimizer of the
        layer's own in the backward pass, whenever a gradient is asked for. It
        is one by itself, on the rows that were looked up, by their gradient,
        with the rule and the rate of the step that comes next: the losses
        leave no gradient to which this could be added. To SGD both are one
        step by the sum. Adagrad adds the square of each gradient; LazyAdam
        moves the moments of a row twice that is in both. The step is made on
        CPUs, and bfloat16 rows are rounded to nearest: a ValueError otherwise.
        """
        if embed:
            if self.updates_itself(training) and self.trainable:
                return self._vectors(inputs, self._look_up_to_step())
            return self.embed(inputs)
        return super().call(
            inputs, labels, sample_weight, inputs_mask, training
        )

    def compute_output_spec(
        self,
        inputs,
        labels=None,
        sample_weight=None,
        inputs_mask=None,
        training=False,
        embed=False,
    ):
        """The shape and type of what `call` returns."""
        if embed:
            self.check_width()
            return keras.KerasTensor(
                (*inputs.shape, self.width), dtype=self.compute_dtype
            )
        return super().compute_output_spec(
            inputs, labels, sample_weight, inputs_mask, training
        )

    def embed(self, classes):
        """Returns the vectors `[..., width]` of classes `[...]`.

        The vector of a class is its row: in the shortlist as it is; in a tail,
        which is narrower, multiplied by the transposed projection. Only the
        rows of the given classes are read. For training, an `optimizer` of the
        layer's own needs a call of the layer instead: see `call`.

        Raises:
          tf.errors.InvalidArgumentError: a class is not in [0, num_classes).
          TypeError: classes are not integers.
          ValueError: the layer was made without `width`, or is not built.
        """
        return without_gradient(
            self,
            self._vectors(classes),
            "embed",
            "call it with embed=True and training=True, ",
        )

    def check_width(self):
        """Raises a ValueError if the layer was made without `width`."""
        if self.width is None:
            raise ValueError(
                f"{self.name} embeds classes only if it is made with width, "
                "that of its inputs"
            )

    def _vectors(self, classes, look_up=None):
        """The vectors of classes.

        Args:
          classes: see `embed`.
          look_up: takes a variable and `rows [B]` to these; None: they are
            read.
        """
        self.check_width()
        self.check_built()
        classes = arguments.integers(classes, "classes")
        flat = tf.reshape(classes, [-1])
        ranks = self.clusters.ranks(flat, "classes")
        tails = self.clusters.tails(ranks)
        dtype = tf.as_dtype(self.loss_dtype)
        vectors = tf.zeros([tf.size(flat), self.width], dtype)
        clusters = routing.routes(tails, 1 + len(self.cutoffs), first=-1)
        for number, route in enumerate(clusters, -1):
            found = self._vectors_of(number, route.take(ranks), look_up)
            vectors = route.add(vectors, found)
        vectors = tf.reshape(
            vectors, tf.concat([tf.shape(classes), [self.width]], 0)
        )
        return tf.cast(vectors, self.compute_dtype)

    def _vectors_of(self, number, ranks, look_up):
        """The vectors of classes of one tail, or with -1 of the shortlist."""
        look_up = look_up or (lambda table, rows: tf.gather(table.value, rows))
        dtype = tf.as_dtype(self.loss_dtype)
        if number < 0:
            return tf.cast(look_up(self.head_kernel, ranks), dtype)
        within = ranks - self.cutoffs[number]
        class_rows = path_tensors(self.clusters.tail_trees[number]).class_rows
        rows = look_up(self.tail_kernels[number], tf.gather(class_rows, within))
        projection = self.projections[number]
        with tf.device(self.device_of(number)):
            rows = tf.cast(rows, dtype)
            if projection is None:
                return rows
            return tf.matmul(
                rows, tf.cast(projection.value, dtype), transpose_b=True
            )

    def _look_up_to_step(self):
        """What takes a variable and `rows [B]` to these, to train them.

        Raises:
          ValueError: they would be rounded at random.
        """
        if self.variable_dtype == "bfloat16" and (
            self.stochastic_rounding is not False
        ):
            raise ValueError(
                f"{self.name}: bfloat16 rows that embed are rounded to nearest "
                "in their step; say stochastic_rounding=False, or leave out "
                "the layer's optimizer"
            )
        return functools.partial(
            gather_to_step,
            optimizer=self.optimizer,
            rule=rule_of(self.optimizer),
        )

    def _add_rows(self, name, tree, width, use_bias, counts):
        # Without autocast: a cast would copy all classes' weights.
        options = {"trainable": self.optimizer is None, "autocast": False}
        initializer = fresh(self.kernel_initializer)
        if tree.pinned:
            initializer = of_pairs(initializer, tree.num_groups, width)
        kernel = self.add_weight(
            name=f"{name}_kernel",
            shape=(tree.num_weight_rows, width),
            initializer=by_blocks(initializer),
            constraint=self.kernel_constraint,
            **options,
        )
        bias = None
        if use_bias:
            bias = self.add_weight(
                name=f"{name}_bias",
                shape=(tree.num_weight_rows,),
                initializer=prior_initializer(
                    None if counts is None else tree.log_prior(counts),
                    fresh(self.bias_initializer),
                ),
                constraint=self.bias_constraint,
                **options,
            )
        return kernel, bias


def fresh(initializer):
    """A copy, since Keras' initializers draw the same numbers at each call."""
    clone = getattr(initializer, "clone", None)
    return clone() if clone else initializer
