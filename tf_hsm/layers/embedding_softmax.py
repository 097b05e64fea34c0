"""A table of embeddings and a hierarchical softmax as one Keras layer."""

import keras
import tensorflow as tf

from tf_hsm import _attached_head, _checks
from tf_hsm.layers import _bags
from tf_hsm.layers._head_answer import in_functional_models
from tf_hsm.layers._head_layer import check_integers
from tf_hsm.layers._initial_values import by_blocks
from tf_hsm.layers._own_optimizer import without_gradient
from tf_hsm.layers.hierarchical_softmax import HierarchicalSoftmax
from tf_hsm.ops.embedding_train_step import (
    hierarchical_softmax_embedding_train_step,
)
from tf_hsm.runtime import row_parts

_COMBINERS = ("mean", "sum")


@keras.saving.register_keras_serializable("tf_hsm")
class EmbeddingSoftmax(HierarchicalSoftmax):
    """A hierarchical softmax whose inputs are embeddings of ids, its own.

    It stands for an `Embedding`, the mean or sum of each bag of them, and a
    `HierarchicalSoftmax` of these, as in word2vec and fastText (Mikolov et al.,
    2013: Efficient Estimation of Word Representations in Vector Space; Joulin
    et al., 2017: Bag of Tricks for Efficient Text Classification). With an
    `optimizer` of its own, one op looks the embeddings up, makes the losses and
    updates table and tree in place: no gradient is ever stored. See
    `tf_hsm.hierarchical_softmax_embedding_train_step`.

    >>> head = tf_hsm.layers.EmbeddingSoftmax(
    ...     tf_hsm.Tree.huffman(counts), num_embeddings=len(counts), width=300,
    ...     optimizer=tf_hsm.optimizers.RowwiseAdagrad(0.1))
    >>> model = keras.Sequential([keras.Input([], dtype="int64"), head])
    >>> model.compile(loss=head.loss, metrics=[tf_hsm.metrics.Perplexity()])
    >>> model.fit(word_ids, context_ids)

    All of `HierarchicalSoftmax` is there too, with ids in the place of inputs:
    `head(ids, labels)` as an endpoint, `predict`, `top_k`, `log_prob`, `sample`
    and `log_probs`. `inputs` are

    - ids `[batch]`, one for each label;
    - `[batch, n]`, a bag in each row, where `padding_id` fills the shorter
      ones; or a `tf.RaggedTensor` `[batch, None]`;
    - `[ids, weights]`, a list of such ids and what each embedding is multiplied
      by, of the same shape.

    Labels are `[batch]`; with `several_labels`, `[batch, M]` or ragged. An
    empty bag is a vector of zeros. A mean is divided by the sum of the weights;
    where that is 0, it is 0.

    The optimizer steps by what the model minimizes: with `head.loss`, the mean
    over the batch. word2vec makes a step of its own size for each example
    instead; so does `tf_hsm.losses.HierarchicalSoftmaxLoss("sum")`, which SGD
    and the Adagrads want, since few examples of a batch share an id. Where the
    layer trains itself and there is no other, Keras warns that "the model does
    not have any trainable weights": none that the model's optimizer trains.

    Args:
      tree: a `tf_hsm.Tree`.
      num_embeddings: how many ids there are.
      width: D, of an embedding.
      optimizer: None: table and tree are trained by the optimizer of the model,
        from sparse gradients; or one for this layer alone, which updates both
        in place, on the CPU: see `HierarchicalSoftmax`.
      combiner: of bags, "mean" or "sum".
      padding_id: an id, of any number, that stands for none and is left out; or
        None.
      embeddings_initializer: for the embeddings; None: uniform in
        [-0.5 / width, 0.5 / width), as in word2vec.
      kernel_initializer: for the kernel, `[rows, width]`.
      **kwargs: as for `HierarchicalSoftmax`, but for `devices` and `plan`. Its
        regularizers and constraints are for the rows of the tree.

    Attributes:
      embeddings: `[num_embeddings, width]`, a variable.
      kernel: the weights, `[tree.num_weight_rows, width]`.
      bias: `[tree.num_weight_rows]`, or None.

    Raises:
      TypeError: `tree`, `padding_id` or `optimizer` is of a wrong type.
      ValueError: an argument is out of range or not possible here; names it.
    """

    def __init__(
        self,
        tree,
        num_embeddings,
        width,
        optimizer=None,
        combiner="mean",
        padding_id=None,
        embeddings_initializer=None,
        kernel_initializer="zeros",
        **kwargs,
    ):
        """See the class."""
        for name in ("devices", "plan"):
            if kwargs.get(name):
                raise ValueError(
                    f"{name} is not possible with a table of embeddings; leave "
                    "it out, or put an Embedding before a HierarchicalSoftmax"
                )
        super().__init__(
            tree,
            optimizer=optimizer,
            kernel_initializer=kernel_initializer,
            **kwargs,
        )
        if combiner not in _COMBINERS:
            raise ValueError(
                f"combiner must be 'mean' or 'sum', but is {combiner!r}"
            )
        self.num_embeddings = _checks.check_int(
            "num_embeddings", num_embeddings, 1
        )
        self.width = _checks.check_int("width", width, 1)
        self.combiner = combiner
        self.padding_id = (
            None
            if padding_id is None
            else _checks.as_integer("padding_id", padding_id)
        )
        if embeddings_initializer is None:
            embeddings_initializer = keras.initializers.RandomUniform(
                -0.5 / self.width, 0.5 / self.width
            )
        self.embeddings_initializer = keras.initializers.get(
            embeddings_initializer
        )
        self.embeddings = None

    def build(self, inputs_shape=None, labels_shape=None):
        """Makes the variables, for inputs of any shape."""
        del inputs_shape, labels_shape
        # The op of the step runs there.
        device = None if self.optimizer is None else "CPU:0"
        with row_parts.on(device):
            self.embeddings = self.add_weight(
                name="embeddings",
                shape=(self.num_embeddings, self.width),
                initializer=by_blocks(self.embeddings_initializer),
                trainable=self.optimizer is None,
                # A cast would copy all of them.
                autocast=False,
            )
            super().build([None, self.width])
        for variable in self.row_variables():
            row_parts.place(variable, device)

    def row_variables(self):
        """Returns the weights, the biases if any, and the embeddings."""
        return [*super().row_variables(), self.embeddings]

    def call(
        self,
        inputs,
        labels=None,
        sample_weight=None,
        inputs_mask=None,
        training=False,
    ):
        """Takes ids or bags to losses, or to classes.

        Args:
          inputs: see the class.
          labels: `[batch]` or `[batch, 1]`, integers; `[batch, M]` where an
            input has several; or None.
          sample_weight: `[batch]`, weights of the losses in the mean that is
            added to the model's losses.
          inputs_mask: `[batch]` bool, the inputs that count.
          training: whether the layer's own optimizer, if there is one, makes a
            step, and classes are not asked for.

        Returns:
          With labels, `[batch]`: the loss of each, in nats, 0 where ignored or
          masked. Without, the most probable classes, `[batch]` int64; in
          training, where they would only cost time, -1.
        """
        return super().call(
            self._read(inputs),
            labels,
            sample_weight,
            _mask_of(inputs_mask),
            training,
        )

    def compute_output_spec(
        self,
        inputs,
        labels=None,
        sample_weight=None,
        inputs_mask=None,
        training=False,
    ):
        """The shape and type of what `call` returns."""
        ids, _ = _bags.parts_of(inputs)
        check_integers(ids, "ids")
        vectors = keras.KerasTensor([ids.shape[0], self.width])
        outputs = super().compute_output_spec(vectors, labels)
        if labels is None:
            _attached_head.attach_head(outputs, self, inputs)
        return outputs

    def compute_output_shape(self, inputs_shape, labels_shape=None):
        """The shape `[batch]` of classes and losses."""
        del labels_shape
        ids_shape = inputs_shape
        if isinstance(ids_shape[0], (list, tuple)):  # and that of weights
            ids_shape = ids_shape[0]
        return tuple(ids_shape[:1])

    def compute_mask(self, inputs, previous_mask):
        """The mask `[batch]` of what `call` returns: that of the inputs."""
        del inputs
        return _mask_of(previous_mask)

    def pass_through(self, inputs):
        """Returns `[batch]`: no classes."""
        return tf.fill([inputs.count], tf.constant(-1, tf.int64))

    def of_labels(self, inputs, labels):
        """Returns those of each of labels `[batch, M]`, `batch` * M bags."""
        return inputs.repeated(tf.shape(labels)[1])

    def compute_losses(self, labels, inputs, ignored, loss_weights, **options):
        """Returns the loss per label; with `loss_weights`, makes a step."""
        if labels.shape.rank == 2:
            shape, labels = tf.shape(labels), tf.reshape(labels, [-1])
            if loss_weights is not None:
                loss_weights = tf.reshape(loss_weights, [-1])
            losses = self.compute_losses(
                labels, inputs, ignored, loss_weights, **options
            )
            return tf.reshape(losses, shape)
        if loss_weights is None:
            vectors = self.hidden(inputs)
            return super().compute_losses(
                labels, vectors, ignored, None, **options
            )
        return hierarchical_softmax_embedding_train_step(
            self.kernel,
            self.bias,
            labels,
            self.embeddings,
            inputs.ids,
            self.tree,
            self.optimizer,
            loss_weights=loss_weights,
            ignore_class=ignored,
            stochastic_rounding=self.stochastic_rounding,
            seed=self.seed,
            combiner=self.combiner,
            index_weights=inputs.weights,
            nodes=self.node_labels,
            **options,
        )

    def hidden(self, inputs):
        """The vectors `[batch, width]` of ids or bags."""
        self.check_built()
        return self._read(inputs).combined(
            self.embeddings, self.combiner, self.loss_dtype
        )

    @in_functional_models
    def embed(self, inputs):
        """Returns the vectors `[batch, width]` of ids, or of bags combined.

        Raises:
          tf.errors.InvalidArgumentError: an id is not in [0, num_embeddings).
          TypeError: ids are not integers.
          ValueError: the layer is not built.
        """
        vectors = tf.cast(self.hidden(inputs), self.compute_dtype)
        return without_gradient(self, vectors, "embed")

    def grow(self, tree, counts=None):
        """See `HierarchicalSoftmax.grow`; the embeddings stay as they are."""
        layer = super().grow(tree, counts)
        layer.embeddings.assign(self.embeddings.value)
        return layer

    def _read(self, inputs):
        return _bags.read(inputs, self.width, self.padding_id)

    def get_config(self):
        """Returns the arguments, the tree in full, as JSON can hold them."""
        return {
            **super().get_config(),
            "num_embeddings": self.num_embeddings,
            "width": self.width,
            "combiner": self.combiner,
            "padding_id": self.padding_id,
            "embeddings_initializer": keras.initializers.serialize(
                self.embeddings_initializer
            ),
        }


def _mask_of(mask):
    """The mask `[batch]` of inputs, or None.

    Raises:
      ValueError: it is one of the ids in bags.
    """
    if isinstance(mask, (list, tuple)):
        mask = mask[0]  # Keras gives one for each tensor of the inputs.
    if mask is not None and mask.shape.rank != 1:
        raise ValueError(
            f"the mask of ids, of shape {mask.shape}, must be [batch], the "
            "inputs that count; of ids in bags, padding_id leaves out some"
        )
    return mask
