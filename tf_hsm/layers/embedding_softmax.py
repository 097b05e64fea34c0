"""A table of embeddings and a hierarchical softmax as one Keras layer."""

import keras
import tensorflow as tf

from tf_hsm import _checks
from tf_hsm.heads import bags
from tf_hsm.heads.tree_head import TreeHead
from tf_hsm.layers import grown_layer, in_place, pruned_layer
from tf_hsm.layers.head_answer import in_functional_models
from tf_hsm.layers.head_layer import HeadLayer
from tf_hsm.layers.in_place import InPlace
from tf_hsm.layers.initial_values import by_blocks
from tf_hsm.layers.labels import as_label
from tf_hsm.layers.layer_arguments import (
    documented,
    starting_counts,
)
from tf_hsm.layers.objective import Objective
from tf_hsm.layers.row_options import RowOptions
from tf_hsm.layers.rows import RowSpec
from tf_hsm.runtime import arguments, row_parts
from tf_hsm.tree.tree import check_one_tree


@documented
@keras.saving.register_keras_serializable("tf_hsm")
class EmbeddingSoftmax(HeadLayer):
    """A hierarchical softmax whose inputs are embeddings of ids, its own.

    It stands for an `Embedding`, the mean or sum of each bag of them, and a
    `HierarchicalSoftmax` of these, as in word2vec and fastText (Mikolov et al.,
    2013: Efficient Estimation of Word Representations in Vector Space; Joulin
    et al., 2017: Bag of Tricks for Efficient Text Classification). With an
    `optimizer` of its own, the gradient of the losses updates table and tree in
    place. In a training loop of your own,
    `tf_hsm.hierarchical_softmax_embedding_train_step` is the step in one op.

    >>> head = tf_hsm.layers.EmbeddingSoftmax(
    ...     tf_hsm.Tree.huffman(counts), num_embeddings=len(counts), width=300,
    ...     optimizer=tf_hsm.optimizers.RowwiseAdagrad(0.1))
    >>> model = keras.Sequential([keras.Input([], dtype="int64"), head])
    >>> model.compile(loss=head.loss)
    >>> model.fit(word_ids, context_ids)

    The layer does what `HierarchicalSoftmax` does on one device, with ids in
    the place of inputs: `head(ids, labels)` as an endpoint, `predict_class`,
    `top_k`, `log_prob`, `sample`, `log_probs` and `grow`. `head(ids)` and
    `predict` return the vectors of the ids, which are floats. Losses and
    metrics take such vectors, and answers take vectors or ids. Ids are

    - ids `[batch]`, one for each label;
    - `[batch, n]`, a bag in each row, where `padding_id` fills the shorter
      ones; or a `tf.RaggedTensor` `[batch, None]`;
    - `[ids, weights]`, a list of such ids and what each embedding is multiplied
      by, of the same shape.

    Labels are `[batch]`; with `several_labels`, `[batch, M]` or ragged. An
    empty bag is a vector of zeros. A mean is divided by the sum of the weights;
    where that is 0, it is 0.

    With `head.loss`, the model minimizes the mean over the batch. word2vec
    makes a step of its own size for each example instead, as
    `tf_hsm.losses.HeadLoss(head, "sum")` does. SGD and the Adagrads need such
    steps, since few examples of a batch share an id.

    Args:
      tree: a `tf_hsm.Tree`.
      num_embeddings: how many ids there are.
      width: D, of an embedding.
      combiner: of bags, "mean" or "sum".
      padding_id: an id, of any number, that stands for none and is left out; or
        None.
      embeddings_initializer: for the embeddings; None: uniform in
        [-0.5 / width, 0.5 / width), as in word2vec.
      counts: `[N]`, how often each class occurs, with which the biases begin;
        when None, the counts of the tree.
      {rows}
      {labels}
      node_labels: whether labels are rows of the tree: see
        `HierarchicalSoftmax`.
      {smoothing}
      {loss}
      {in_place}
      {row_options}

    With an `optimizer`, the layer updates table and tree together, on the CPU.
    Regularizers and constraints are for the rows of the tree, not for the
    embeddings. A row of a pinned tree stands for the difference of two rows.

    Attributes:
      embeddings: `[num_embeddings, width]`, a variable.
      kernel: the weights, `[tree.num_weight_rows, width]`.
      bias: `[tree.num_weight_rows]`, or None.

    Raises:
      TypeError: an argument is of a wrong type; the message names it.
      ValueError: an argument is out of its range, or two exclude each other;
        the message names them.
    """

    _unsupported = ("z_loss",)

    def __init__(
        self,
        tree,
        *,
        num_embeddings,
        width,
        combiner="mean",
        padding_id=None,
        embeddings_initializer=None,
        counts=None,
        use_bias=True,
        kernel_initializer="zeros",
        bias_initializer="zeros",
        ignore_class=None,
        several_labels=False,
        node_labels=False,
        label_smoothing=0.0,
        smoothing_prior=None,
        class_weights=None,
        focal_gamma=0.0,
        optimizer=None,
        stochastic_rounding=None,
        seed=0,
        kernel_regularizer=None,
        bias_regularizer=None,
        kernel_constraint=None,
        bias_constraint=None,
        **kwargs,
    ):
        check_one_tree(tree)
        arguments.check_combiner(combiner)
        for name in ("devices", "plan"):
            if kwargs.pop(name, None):
                raise ValueError(
                    f"{name} is not possible with a table of embeddings; leave "
                    "it out, or put an Embedding before a HierarchicalSoftmax"
                )
        super().__init__(
            lambda: [self.tree],
            Objective(
                tree.num_classes,
                ignore_class=ignore_class,
                several_labels=several_labels,
                node_labels=node_labels,
                label_smoothing=label_smoothing,
                smoothing_prior=tree._by_class(
                    smoothing_prior, "smoothing_prior"
                ),
                class_weights=tree._by_class(
                    class_weights, "class_weights", missing=1
                ),
                focal_gamma=focal_gamma,
            ),
            RowSpec(use_bias, kernel_initializer, bias_initializer),
            RowOptions(
                kernel_regularizer,
                bias_regularizer,
                kernel_constraint,
                bias_constraint,
            ),
            InPlace(optimizer, stochastic_rounding, seed),
            **kwargs,
        )
        self.tree = tree
        self._counts = starting_counts(counts, tree, use_bias, bias_initializer)
        self.num_embeddings = _checks.check_int(
            "num_embeddings", num_embeddings, 1
        )
        self.width = _checks.check_int("width", width, 1)
        self.combiner = combiner
        self.padding_id = as_label("padding_id", padding_id)
        if embeddings_initializer is None:
            embeddings_initializer = keras.initializers.RandomUniform(
                -0.5 / self.width, 0.5 / self.width
            )
        self.embeddings_initializer = keras.initializers.get(
            embeddings_initializer
        )
        self.embeddings = self.kernel = self.bias = None

    def _width_of(self, inputs_shape):
        del inputs_shape
        return self.width

    def _make_head(self, width):
        prior = None
        if self._counts is not None:
            prior = self.tree.log_prior(self._counts)
        # The op of a step in place runs there.
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
            self.kernel, self.bias = self.rows.make(
                self, self.tree, width, prior
            )
        head = TreeHead(self.kernel, self.bias, self.tree)
        for variable in (*head.variables(), self.embeddings):
            row_parts.place(variable, device)
        return head

    def row_variables(self):
        """Returns the weights, the biases if any, and the embeddings."""
        return [*super().row_variables(), self.embeddings]

    def call(self, inputs, labels=None, sample_weight=None, inputs_mask=None):
        """Returns the vectors of ids or bags or, with labels, their losses.

        Args:
          inputs: see the class; or vectors `[batch, width]`.
          labels: `[batch]` or `[batch, 1]`, integers; `[batch, M]` where an
            input has several; or None.
          sample_weight: `[batch]`, weights of the losses in the mean that is
            added to the model's losses.
          inputs_mask: `[batch]` bool, the inputs that count.

        Returns:
          Without labels, `[batch, width]`, in the type of losses. With labels,
          `[batch]`: the loss of each, in nats, 0 where ignored or masked.
        """
        mask = _mask_of(inputs_mask)
        return super().call(self._vectors(inputs), labels, sample_weight, mask)

    def compute_output_spec(
        self, inputs, labels=None, sample_weight=None, inputs_mask=None
    ):
        """Returns the shape and type of what `call` returns."""
        del sample_weight, inputs_mask
        ids, _ = bags.parts_of(inputs)
        shape = ids.shape[:1]
        if not bags.are_vectors(ids, self.width):
            arguments.check_integers(ids, "ids")
        if labels is None:
            return keras.KerasTensor((*shape, self.width), self.loss_dtype)
        arguments.check_integers(labels, "labels")
        return keras.KerasTensor(shape, dtype=self.loss_dtype)

    def compute_output_shape(self, inputs_shape, labels_shape=None):
        """Returns the shape of vectors or, with labels, of losses."""
        ids_shape = inputs_shape
        if isinstance(ids_shape[0], (list, tuple)):  # and the shape of weights
            ids_shape = ids_shape[0]
        width = (self.width,) if labels_shape is None else ()
        return (*ids_shape[:1], *width)

    def compute_mask(self, inputs, previous_mask):
        """Returns the mask `[batch]` of the inputs, for what `call` returns."""
        del inputs
        return _mask_of(previous_mask)

    @in_functional_models
    def embed(self, inputs):
        """Returns the vectors `[batch, width]` of ids, or of bags combined.

        With an optimizer of the layer's own, the gradient of the vectors makes
        a step of their rows.

        Raises:
          tf.errors.InvalidArgumentError: an id is not in [0, num_embeddings).
          TypeError: ids are not integers.
          ValueError: the layer is not built.
        """
        return tf.cast(self._vectors(inputs), self.compute_dtype)

    def _vectors(self, inputs):
        """Returns the vectors of ids, float32 where rows have 16 bits."""
        self._check_built()
        step = self.in_place.step(self)
        vectors = self._hidden(inputs, step and step.gather)
        if step is not None or bags.are_vectors(inputs, self.width):
            return vectors
        return self.in_place.without_gradient(
            self, vectors, "these vectors", in_place.NO_TAPE
        )

    def _hidden(self, inputs, look_up=None):
        """Returns the vectors `[batch, width]` of ids or bags, or vectors.

        Args:
          inputs: see the class; or vectors, which are returned as they are.
          look_up: see `Bags.combined`.
        """
        if bags.are_vectors(inputs, self.width):
            return inputs
        found = bags.read(inputs, self.num_embeddings, self.padding_id)
        return found.combined(
            self.embeddings, self.combiner, self.loss_dtype, look_up
        )

    def grow(self, tree, counts=None, *, like=None):
        """Returns a layer with another tree, and the same embeddings.

        See `HierarchicalSoftmax.grow` for arguments and errors.
        """
        layer = grown_layer.grow(self, tree, counts, like=like)
        layer.embeddings.assign(self.embeddings.value)
        return layer

    def prune(self, keep, *, merge=True, counts=None):
        """Returns a layer for fewer classes, and the same embeddings.

        See `HierarchicalSoftmax.prune` for arguments, result and errors. The
        ids of the inputs stay as they are.
        """
        pruned = pruned_layer.prune(self, keep, merge, counts)
        pruned.head.embeddings.assign(self.embeddings.value)
        return pruned

    def _own_config(self):
        return {
            "tree": self.tree.get_config(),
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
      ValueError: it is a mask of the ids in bags.
    """
    if isinstance(mask, (list, tuple)):
        mask = mask[0]  # Keras gives one for each tensor of the inputs.
    if mask is not None and mask.shape.rank != 1:
        raise ValueError(
            f"the mask of ids, of shape {mask.shape}, must be [batch], the "
            "inputs that count; of ids in bags, padding_id leaves out some"
        )
    return mask
