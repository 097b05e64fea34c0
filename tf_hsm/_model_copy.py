"""Copies of models whose head has other rows."""

import contextlib
import tempfile

import keras

from tf_hsm.layers.head_layer import HeadLayer, heads_of
from tf_hsm.runtime import (
    kept_rows,
    model_calls,
    private_keras,
)

# Their own methods are for adapters and quantization, which are variables.
_IN_VARIABLES = (
    keras.layers.Dense,
    keras.layers.EinsumDense,
    keras.layers.Embedding,
)


def head_of(model, head, verb):
    """Returns the head of a model that gets other rows.

    Args:
      model: a `keras.Model`.
      head: the head, where the model has several; or None.
      verb: what the head is to do, such as "grow".

    Raises:
      ValueError: the layers of the model are not known, or it has no head or
        several.
    """
    if model_calls.calls_of(model) is None:
        raise ValueError(
            f"{model.name} is neither a Sequential nor a functional model, or "
            f"not built; put what head.{verb} returns in the place of its head "
            "yourself"
        )
    heads = heads_of(model)
    if head is not None:
        heads = [head] if isinstance(head, HeadLayer) else []
    if not heads:
        raise ValueError(f"{model.name} has no head of tf_hsm.layers")
    if len(heads) > 1:
        names = ", ".join(x.name for x in heads)
        raise ValueError(
            f"{model.name} has the heads {names}; say by head=... which one "
            f"should {verb}"
        )
    return heads[0]


def embedding_of(model, table, verb):
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
            f"quantization add them; {verb} the model without"
        )
    return found[0]


def with_head(model, head, new_head, kept, tables, verb):
    """Returns a copy of a model that has another head.

    All other weights are copied, and so is the state of the optimizer that the
    model was compiled with.

    Args:
      model: the old model.
      head: its head.
      new_head: the head of the copy, which has its weights.
      kept: by the ids of the variables of `head`, the old row that each row of
        the new head's variable continues, or -1.
      tables: a list of `(layer, input_dim, copy_rows)`: embeddings of the model
        that get another number of rows. `copy_rows` takes the layer and its
        copy, fills the copy's rows, and returns the old row of each row, or -1.
      verb: what the head does, such as "grow".

    Raises:
      ValueError: a layer cannot be copied, or the optimizer has a state of all
        rows together.
    """
    sizes = {id(table): size for table, size, _ in tables}
    copies, pairs = {}, []

    def copy_of(layer):
        if layer is head:
            copy = new_head
        else:
            config = layer.get_config()
            if id(layer) in sizes:
                config["input_dim"] = sizes[id(layer)]
            copy = type(layer).from_config(config)
        copies[id(layer)] = copy
        pairs.append((layer, copy))
        return copy

    with _policy(model.dtype_policy):
        made = keras.models.clone_model(
            model, clone_function=copy_of, recursive=True
        )
        _compile_without_scaling(model, made)
    changed = [head, *(table for table, *_ in tables)]
    missing = [x.name for x in changed if id(x) not in copies]
    if missing:
        raise ValueError(
            f"{missing[0]} is within a layer that only its own class can copy; "
            f"make the model anew with what {verb} returns of the head"
        )
    kept = dict(kept)
    for table, _, copy_rows in tables:
        kept[id(table.embeddings)] = copy_rows(table, copies[id(table)])
    for old, new in pairs:
        if old is not head and id(old) not in sizes:
            _copy_state(old, new)
    for old, new in zip(model.variables, made.variables, strict=True):
        if id(old) not in kept:
            new.assign(old.value)
    # A class with a `compile` of its own is not compiled here; Keras says so.
    old, new = (getattr(x, "optimizer", None) for x in (model, made))
    if old is not None and new is not None:
        if old.built:
            for layer, copy in pairs:
                # Both optimizers have an anchor, or neither has.
                if isinstance(layer, HeadLayer) and layer.in_place.is_asked():
                    copy.in_place.let_fit_ask(copy, made)
            kept_rows.copy_optimizer(old, new, kept)
        pairs = zip(model.variables, made.variables, strict=True)
        kept_rows.copy_decay_exclusions(old, new, pairs)
    return made


def _compile_without_scaling(model, copy):
    """Compiles a model's copy with no scaling of the loss where it has none.

    Keras forgets `auto_scale_loss=False`.
    """
    scales = [
        isinstance(
            getattr(x, "optimizer", None), keras.optimizers.LossScaleOptimizer
        )
        for x in (model, copy)
    ]
    if scales == [False, True]:
        config = model.get_compile_config()
        copy.compile_from_config({**config, "auto_scale_loss": False})


def _copy_state(layer, copy):
    """Copies what a layer has besides variables that its model names."""
    pairs = [(layer, copy)]
    within = [private_keras.layers_of(x) for x in (layer, copy)]
    if len(within[0]) == len(within[1]):
        pairs = zip(*within, strict=True)
    for old, new in pairs:
        if not isinstance(old, HeadLayer):
            _copy_own_state(old, new)
            continue
        optimizer = getattr(old, "optimizer", None)
        if optimizer is not None and optimizer.built:
            new.in_place.build(new)
            kept_rows.copy_optimizer(optimizer, new.optimizer, {})


def _copy_own_state(source, target):
    """Copies what a layer of Keras saves by methods of its own.

    Such as the vocabulary of a `TextVectorization`, or what `Normalization`
    makes of its variables, which are to be assigned afterwards.
    """
    if _overrides(source, "load_own_variables") and not isinstance(
        source, _IN_VARIABLES
    ):
        store = {}
        source.save_own_variables(store)
        target.load_own_variables(store)
    if not _overrides(source, "load_assets"):
        return
    with tempfile.TemporaryDirectory() as folder:
        source.save_assets(folder)
        target.load_assets(folder)
    if hasattr(source, "get_vocabulary"):
        found, expected = target.get_vocabulary(), source.get_vocabulary()
        if list(found) != list(expected):
            raise ValueError(
                f"{source.name} has tokens that Keras does not save, empty "
                "ones or line breaks; give the layer its vocabulary when it "
                "is made"
            )


def _overrides(layer, name):
    method = getattr(type(layer), name, None)
    return method not in (
        None,
        getattr(keras.layers.Layer, name, None),
        getattr(keras.Model, name, None),
    )


@contextlib.contextmanager
def _policy(policy):
    """Within, models are made with a policy, on which `compile` depends."""
    own = keras.config.dtype_policy()
    keras.config.set_dtype_policy(policy)
    try:
        yield
    finally:
        keras.config.set_dtype_policy(own)
