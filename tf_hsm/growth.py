"""Models whose vocabulary grows."""

import contextlib

import keras
import numpy as np

from tf_hsm.layers.growth import kept as kept_in
from tf_hsm.layers.head_layer import HeadLayer
from tf_hsm.runtime import (
    kept_rows,
    layer_copies,
    private_compile,
    private_keras,
    private_optimizer,
)


def grow(model, tree, *, counts=None, embeddings=(), head=None):
    """Returns a copy of a model whose head has another tree.

    The head is `head.grow(tree, counts)`. All other weights are copied, and so
    is the state of the optimizer that the model was compiled with: its steps,
    its rate and the slots of all rows that go on. So `fit` goes on where it
    was. The model itself stays as it is.

    >>> model = keras.models.load_model("model.keras")
    >>> tree = model.layers[-1].tree.grow(["new", "words"])
    >>> model = tf_hsm.grow(model, tree)

    Where labels and tokens are the same words, name the embedding of the tokens
    too. It gets a row for each new class, after its last one, which begins as
    the mean of its rows.

    Args:
      model: a Sequential or functional `keras.Model`, compiled or not.
      tree: a `tf_hsm.Tree` whose first classes are the classes of the head, as
        from `Tree.grow` or `Tree.rebalance`; for an `AdaptiveSoftmax` or a
        `SampledSoftmax`, how many classes there are now.
      counts: how often each class occurs, for the start values of new rows: see
        `grow` of the head. `[N]` for the new tree; for a `LabelTree`, its
        `tf_hsm.LabelCounts`.
      embeddings: `keras.layers.Embedding`s of the model, or their names.
      head: the layer to grow, where the model has several heads.

    Raises:
      TypeError: `tree` is not a `tf_hsm.Tree`, or one of `embeddings` no
        `Embedding`.
      ValueError: the model has no head, or several; is one whose layers are not
        known; or has an optimizer with a state of all rows together.
    """
    head = _head_of(model, head)
    grown_head = head.grow(tree, counts)
    num_new = grown_head.num_classes - head.num_classes
    tables = [_embedding_of(model, table) for table in embeddings]
    copies, pairs = {}, []

    def copy_of(layer):
        if layer is head:
            copy = grown_head
        else:
            config = layer.get_config()
            if any(layer is table for table in tables):
                config["input_dim"] += num_new
            copy = type(layer).from_config(config)
        copies[id(layer)] = copy
        pairs.append((layer, copy))
        return copy

    with _policy(model.dtype_policy):
        grown = keras.models.clone_model(
            model, clone_function=copy_of, recursive=True
        )
        private_compile.compile_without_scaling(model, grown)
    missing = [x.name for x in (head, *tables) if id(x) not in copies]
    if missing:
        raise ValueError(
            f"{missing[0]} is within a layer that only its own class can copy; "
            "make the model anew with what grow returns of the head"
        )
    kept = kept_in(head, grown_head)
    for table in tables:
        kept[id(table.embeddings)] = _copy_rows(table, copies[id(table)])
    for old, new in pairs:
        if old is not head and not any(old is table for table in tables):
            _copy_state(old, new)
    for old, new in zip(model.variables, grown.variables, strict=True):
        if id(old) not in kept:
            new.assign(old.value)
    # A class with a `compile` of its own is not compiled here; Keras says so.
    old, new = (getattr(x, "optimizer", None) for x in (model, grown))
    if old is not None and new is not None:
        if old.built:
            kept_rows.copy_optimizer(old, new, kept)
        pairs = zip(model.variables, grown.variables, strict=True)
        private_optimizer.copy_decay_exclusions(old, new, pairs)
    return grown


def _copy_state(layer, copy):
    """Copies what a layer has besides variables that its model names."""
    pairs = [(layer, copy)]
    within = [private_keras.layers_of(x) for x in (layer, copy)]
    if len(within[0]) == len(within[1]):
        pairs = zip(*within, strict=True)
    for old, new in pairs:
        if not isinstance(old, HeadLayer):
            layer_copies.copy_state(old, new)
            continue
        optimizer = getattr(old, "optimizer", None)
        if optimizer is not None and optimizer.built:
            new.in_place.build(new)
            kept_rows.copy_optimizer(optimizer, new.optimizer, {})


def _head_of(model, head):
    """Returns the head of a model that grows."""
    if private_keras.calls_of(model) is None:
        raise ValueError(
            f"{model.name} is neither a Sequential nor a functional model, or "
            "not built; put head.grow(tree) in the place of its head yourself"
        )
    layers = private_keras.layers_of(model) if head is None else [head]
    heads = [x for x in layers if isinstance(x, HeadLayer)]
    if not heads:
        raise ValueError(f"{model.name} has no head of tf_hsm.layers")
    if len(heads) > 1:
        names = ", ".join(x.name for x in heads)
        raise ValueError(
            f"{model.name} has the heads {names}; say by head=... which grows"
        )
    return heads[0]


def _embedding_of(model, table):
    """Returns a layer of the model that is given by itself or by its name."""
    layers = private_keras.layers_of(model)
    found = [x for x in layers if x is table or x.name == table]
    if not found:
        raise ValueError(f"{model.name} has no layer {table!r}")
    if not isinstance(found[0], keras.layers.Embedding):
        raise TypeError(
            f"{found[0].name} is a {type(found[0]).__name__}; embeddings must "
            "be keras.layers.Embedding"
        )
    if len(found[0].weights) > 1:
        raise ValueError(
            f"{found[0].name} has other weights beside its rows, as LoRA and "
            "quantization add them; grow the model without"
        )
    return found[0]


def _copy_rows(table, larger):
    """Copies the rows of an embedding; returns them as `kept_rows` has it."""
    rows = np.arange(larger.input_dim)
    rows[table.input_dim :] = -1
    mean = keras.ops.mean(table.embeddings.value, axis=0).numpy()
    kept_rows.copy(
        table.embeddings, larger.embeddings, rows, lambda new_rows: mean
    )
    return rows


@contextlib.contextmanager
def _policy(policy):
    """Within, models are made with a policy, on which `compile` depends."""
    own = keras.config.dtype_policy()
    keras.config.set_dtype_policy(policy)
    try:
        yield
    finally:
        keras.config.set_dtype_policy(own)
