"""The rows of a Keras `Embedding` as the weights of a full softmax."""

import keras

from tf_hsm.runtime import private_keras
from tf_hsm.tree import Tree


def check(embedding, tree, **others):
    """Checks what a head is to be tied with.

    Args:
      embedding: the argument `tied_to`.
      tree: the tree of the head.
      **others: the arguments of the head that must be None.

    Raises:
      TypeError: `embedding` is not a `keras.layers.Embedding`.
      ValueError: `tree` is not `Tree.flat(input_dim)`, or one of `others` is
        not None.
    """
    if not isinstance(embedding, keras.layers.Embedding):
        raise TypeError(
            "tied_to must be a keras.layers.Embedding, but is "
            f"{type(embedding).__name__}"
        )
    if tree.pinned or tree != Tree.flat(tree.num_classes):
        raise ValueError(
            "tied_to needs tree=Tree.flat(N), where row c of the weights is "
            "class c: in another tree a class is a path of rows; an "
            "AdaptiveSoftmax can embed its classes"
        )
    if embedding.input_dim != tree.num_classes:
        raise ValueError(
            f"tied_to has {embedding.input_dim:,} rows, but the tree has "
            f"{tree.num_classes:,} classes"
        )
    reasons = {
        "optimizer": "in a step in place the rows move before the gradient of "
        "the embedding is known; compile the model with the optimizer",
        "devices": "the rows are one variable",
        "plan": "the rows are one variable",
        "kernel_regularizer": "give the Embedding an embeddings_regularizer",
        "kernel_constraint": "give the Embedding an embeddings_constraint",
    }
    for name, reason in reasons.items():
        if others[name] is not None:
            raise ValueError(f"{name} is not possible with tied_to: {reason}")


def check_floats(embedding, name):
    """Raises a ValueError if an embedding, or None, is quantized.

    Args:
      embedding: the `keras.layers.Embedding`, whose rows the head reads.
      name: of the head.
    """
    if embedding is not None and embedding.quantization_mode is not None:
        raise ValueError(
            f"{name}: its Embedding {embedding.name} is quantized, but a tied "
            "head reads the rows as floats; quantize the other layers alone, "
            "model.quantize(mode, filters=lambda layer: layer is not embedding)"
        )


def table(embedding, width, name):
    """Returns the variable `[N, width]` of an embedding, which it may build.

    Args:
      embedding: the `keras.layers.Embedding`.
      width: of the head's inputs.
      name: of the head, for errors.

    Raises:
      ValueError: the inputs have another width, or the embedding is quantized
        or has LoRA weights.
    """
    if width != embedding.output_dim:
        raise ValueError(
            f"{name}: inputs have width {width}, but the rows of tied_to have "
            f"width {embedding.output_dim}; put a Dense layer of "
            f"{embedding.output_dim} units before the head"
        )
    if not embedding.built:
        embedding.build()
    rows = embedding.embeddings
    is_float = isinstance(rows, keras.Variable) and "float" in rows.dtype
    if not is_float:
        raise ValueError(
            f"{name}: tied_to must look up its rows as they are, but is "
            "quantized or has LoRA weights"
        )
    # An Embedding casts what it has looked up. A cast of the whole table would
    # copy it.
    private_keras.never_autocast(rows)
    return rows


def to_config(embedding):
    """Returns an embedding, or None, as JSON can hold it."""
    return embedding and keras.saving.serialize_keras_object(embedding)


def from_config(config, name):
    """Returns the embedding of `to_config`, a layer of the model that loads.

    Args:
      config: what `to_config` returned.
      name: of the head, for the error.

    Raises:
      ValueError: Keras would make a second embedding. It finds the first one in
        a `.keras` file, among the layers of the same functional model.
    """
    if config is None:
        return None
    found = private_keras.shared_object(config)
    if found is None:
        raise ValueError(
            f"{name}: a copy of this head would be tied with a copy of the "
            "Embedding, and not with the Embedding of the model. Make the head "
            "anew with tied_to (in keras.models.clone_model, by a "
            "clone_function), or load the weights alone. A .keras file loads "
            "if Embedding and head are layers of one functional model"
        )
    return found
