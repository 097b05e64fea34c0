"""What heads need: softmaxes over many classes, with their losses.

Each module has a head, registers in `of_layer` the layer that the head
estimates, and has the function that makes the head of a name.
"""

import inspect

import keras
import numpy as np

from tf_hsm import _checks
from tf_hsm.estimation.heads import (
    adaptive_head,
    baseline_heads,
    cut_head,
    embedding_head,  # noqa: F401 (it registers its layer, and has no name)
    flat_heads,
    label_tree_head,
)
from tf_hsm.estimation.heads.head_type import Head, of_layer
from tf_hsm.optimizers import in_place
from tf_hsm.tree import Tree

__all__ = ["Head", "Tree", "head", "of", "of_layer"]

# The functions that make the heads of names, given the name, the classes, the
# counts, and options.
_NAMED = {
    "hierarchical": cut_head.named,
    "label_tree": label_tree_head.named,
    "adaptive": adaptive_head.named,
    "full": flat_heads.full,
    "sampled": flat_heads.sampled,
    **dict.fromkeys(
        ("gather", "embedding_lookup", "map_fn"), baseline_heads.named
    ),
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
        options["optimizer"] = in_place.get(optimizer)
    if shards is not None:
        options |= {"shards": shards, "network": network}
    return make(what, classes, counts, **options)


def of(value):
    """Returns the head that a user names.

    Args:
      value: what `head` returns; a `Tree`; a number of classes; or a Keras
        layer: one of this package, or a `Dense` over all classes.

    Raises:
      TypeError: it is something else.
    """
    if isinstance(value, Head):
        return value
    if isinstance(value, Tree):
        return head(value)
    if isinstance(value, keras.layers.Dense):
        return flat_heads.FullHead(value.name, value.units, value.use_bias)
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
