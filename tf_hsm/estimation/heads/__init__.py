"""What heads need: softmaxes over many classes, with their losses.

The module of a head has the functions that make it of a name, and of a layer.
"""

import dataclasses
import inspect

import keras
import numpy as np

from tf_hsm import _checks, layers
from tf_hsm._units import read_amount
from tf_hsm.estimation.heads import flat_heads, spread_heads, tree_heads
from tf_hsm.estimation.heads.head_type import HeadEstimate
from tf_hsm.optimizers import in_place_rules
from tf_hsm.tree import Tree

__all__ = ["HeadEstimate", "head", "of", "of_layer", "read", "read_optimizer"]

# The functions that make the heads of names, given the name, the classes, the
# counts, and options.
_NAMED = {
    "hierarchical": spread_heads.hierarchical,
    "label_tree": tree_heads.label_tree,
    "adaptive": spread_heads.adaptive,
    "full": flat_heads.full,
    "sampled": flat_heads.sampled,
    "gather": flat_heads.baseline,
    "embedding_lookup": flat_heads.baseline,
    "map_fn": flat_heads.baseline,
}
_OF_LAYERS = {
    layers.HierarchicalSoftmax: spread_heads.of_hierarchical_softmax,
    layers.LabelTree: tree_heads.of_label_tree,
    layers.AdaptiveSoftmax: spread_heads.of_adaptive_softmax,
    layers.SampledSoftmax: flat_heads.of_sampled_softmax,
    layers.EmbeddingSoftmax: tree_heads.of_embedding_softmax,
}


def head(
    what,
    num_classes=None,
    *,
    counts=None,
    optimizer=None,
    shards=None,
    network=1.25e9,
    **options,
):
    """Describes a head, for `tf_hsm.estimate`.

    Args:
      what: a `tf_hsm.Tree`; or "hierarchical", "label_tree", "gather",
        "embedding_lookup" or "map_fn" (a tree, `two_level` if `num_classes`
        is a number), "adaptive", "full", or "sampled".
      num_classes: N; for a name that stands for a tree also a `Tree`.
      counts: how often each class is a label: None for all alike; "zipf" if
        class c occurs 1 / (c + 1) times as often as class 0; or `[N]`. An
        adaptive head without counts has "zipf", for which it is made.
      optimizer: for a tree of this package, or "adaptive": the optimizer with
        which the head updates its own weights in place, a name or one of
        `tf_hsm.optimizers`; None: the head has gradients.
      shards: of a tree of this package: devices over which it is cut by subtree
        (docs/distribution.md); of "adaptive": replicas that have its tails.
        None: it is whole.
      network: bytes a second between these, in each direction.
      **options: `use_bias` of a tree, "full" or "sampled"; `num_sampled` of
        "sampled"; what `AdaptiveSoftmax` takes, of "adaptive".

    Returns:
      A head for `tf_hsm.estimate`.

    Raises:
      TypeError: an option is unknown.
      ValueError: an argument is out of its range.
    """
    classes = num_classes
    if isinstance(what, Tree):
        what, classes = "hierarchical", what
    if what not in _NAMED:
        raise ValueError(
            f"head is {what!r}; it must be a tf_hsm.Tree, a layer, or one of "
            f"{', '.join(_NAMED)}"
        )
    if not isinstance(classes, Tree):
        classes = _checks.check_int("num_classes", classes, 1)
    make = _NAMED[what]
    known = inspect.signature(make).parameters
    for option, value, cannot in (
        (
            "optimizer",
            optimizer,
            "cannot update its own weights; leave out its optimizer",
        ),
        ("shards", shards, "is not cut over devices; leave out shards"),
    ):
        if value is not None and option not in known:
            raise ValueError(
                f"a head that is {what!r} {cannot}, or take 'hierarchical'"
            )
    if optimizer is not None:
        options["optimizer"] = in_place_rules.get(optimizer)
    if shards is not None:
        options["shards"] = _checks.check_int("shards", shards, 1)
        options["network"] = read_amount("network", network, "B")
    return make(what, classes, counts, **options)


def of_layer(layer):
    """Returns the head that a Keras layer is; None if the layer is no head."""
    for kind, make in _OF_LAYERS.items():
        if isinstance(layer, kind):
            weights = getattr(layer.objective, "class_weights", None)
            # Their array, and their tensor.
            array_bytes = 0 if weights is None else 2 * weights.nbytes
            return dataclasses.replace(make(layer), array_bytes=array_bytes)
    return None


def of(value):
    """Returns the head that a `Tree`, a layer or a number of classes is."""
    if isinstance(value, HeadEstimate):
        return value
    if isinstance(value, Tree):
        return head(value)
    if isinstance(value, keras.layers.Dense):
        return flat_heads.FullEstimate(value.name, value.units, value.use_bias)
    found = of_layer(value)
    if found is not None:
        return found
    if isinstance(value, int | np.integer) and not isinstance(value, bool):
        return head("hierarchical", value)
    raise TypeError(
        "head must be a Tree, a layer of tf_hsm or Dense, a number of classes, "
        "a name, or what tf_hsm.estimation.head returns, not "
        f"{type(value).__name__}"
    )


def read(value, num_classes, options):
    """Returns the head of the arguments of `tf_hsm.estimate`, or None.

    Args:
      value: its argument `head`, or one of a list.
      num_classes: N, or None.
      options: the arguments of `head` that the user gave, by name.
    """
    if value is None and num_classes is not None:
        value = "hierarchical"
    names = {"optimizer": "head_optimizer"}
    given = [names.get(option, option) for option in options]
    if value is None:
        if given:
            raise ValueError(
                f"{given[0]} applies to a head, but no head was given"
            )
        return None
    if isinstance(value, str):
        if num_classes is None:
            raise ValueError(
                f"head is {value!r}, which needs the number of its classes: "
                "give num_classes"
            )
        return head(value, num_classes, **options)
    if given and not isinstance(value, Tree):
        raise ValueError(
            f"{given[0]} is for a head given by name or as a tree; this one is "
            f"{type(value).__name__}, which has its own"
        )
    found = head(value, **options) if isinstance(value, Tree) else of(value)
    if num_classes not in (None, found.num_classes):
        raise ValueError(
            f"num_classes is {num_classes}, but head has {found.num_classes}"
        )
    return found


def read_optimizer(optimizer):
    """Returns the optimizer of a head that updates its own weights."""
    try:
        return in_place_rules.get(optimizer)
    except (TypeError, ValueError) as error:
        raise type(error)(f"head_optimizer: {error}") from error
