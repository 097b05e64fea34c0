"""What heads need: softmaxes over many classes, with their losses."""

import dataclasses

import keras
import numpy as np

from tf_hsm import _checks
from tf_hsm._units import read_amount
from tf_hsm.estimation.heads import baseline_heads, cut_head, passed
from tf_hsm.estimation.heads.adaptive_head import AdaptiveHead
from tf_hsm.estimation.heads.flat_heads import FullHead, SampledHead
from tf_hsm.estimation.heads.head_type import Head
from tf_hsm.estimation.heads.label_tree_head import LabelTreeHead
from tf_hsm.estimation.heads.tree_head import TreeHead
from tf_hsm.layers import (
    AdaptiveSoftmax,
    EmbeddingSoftmax,
    HierarchicalSoftmax,
    LabelTree,
    SampledSoftmax,
)
from tf_hsm.optimizers import in_place
from tf_hsm.tree import Tree

_COPIES = ("gather", "embedding_lookup", "map_fn")
# Those that are trees of this package.
_TREES = {"hierarchical": TreeHead, "label_tree": LabelTreeHead}
NAMES = (*_TREES, "adaptive", "full", "sampled", *_COPIES)

__all__ = ["NAMES", "Head", "Tree", "head", "of", "of_layer"]


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
        (docs/distribution.md); None: it is whole.
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
    if what not in NAMES:
        raise ValueError(
            f"head is {what!r}; it must be a tf_hsm.Tree, a layer, or one of "
            f"{', '.join(NAMES)}"
        )
    if not isinstance(classes, Tree):
        classes = _checks.check_int("num_classes", classes, 1)
    elif what in ("adaptive", "full", "sampled"):
        classes = classes.num_classes
    if what in _TREES and optimizer is not None:
        optimizer = in_place.get(optimizer)
    if what == "hierarchical" and shards is not None:
        return cut_head.of(
            what,
            classes if isinstance(classes, Tree) else Tree.two_level(classes),
            _checks.check_int("shards", shards, 1),
            counts,
            read_amount("network", network, "B"),
            rule=optimizer,
            **options,
        )
    if what in _TREES and shards is None:
        found = passed.of(classes, counts)
        return _TREES[what](
            what, found.num_classes, found, optimizer, **options
        )
    own = None if what in ("adaptive", *_TREES) else optimizer
    for value, cannot in (
        (own, "cannot update its own weights; leave out its optimizer"),
        (shards, "is not cut over devices; leave out shards"),
    ):
        if value is not None:
            raise ValueError(
                f"a head that is {what!r} {cannot}, or take 'hierarchical'"
            )
    if what in _COPIES:
        found = passed.of(classes, counts)
        return baseline_heads.of(what, classes, found, what, **options)
    if what == "full":
        return FullHead(what, classes, **options)
    if what == "sampled":
        return SampledHead(what, classes, **options)
    is_known = counts is not None and not isinstance(counts, str)
    layer = AdaptiveSoftmax(
        classes,
        counts=counts if is_known else None,
        optimizer=optimizer,
        **options,
    )
    return _adaptive(layer, counts)


def of_layer(layer, counts=None):
    """Returns the head that a Keras layer is; None if it is none.

    Raises:
      ValueError: nothing is known of what it needs.
    """
    if isinstance(layer, EmbeddingSoftmax):
        raise ValueError(
            f"{layer.name} is an EmbeddingSoftmax, which cannot be estimated; "
            "give an Embedding and a HierarchicalSoftmax in its place, which "
            "need the same and a batch of vectors more"
        )
    if isinstance(layer, AdaptiveSoftmax):
        return _adaptive(layer, counts)
    if isinstance(layer, SampledSoftmax):
        return SampledHead(
            layer.name,
            layer.num_classes,
            min(layer.num_sampled, layer.num_classes),
            layer.use_bias,
        )
    if isinstance(layer, HierarchicalSoftmax) and layer.plan is not None:
        return cut_head.CutHead(
            layer.name,
            layer.tree.num_classes,
            layer.plan,
            passed.counts_of(counts, layer.tree.num_classes),
            layer.plan.step.network,
            layer.optimizer,
            layer.use_bias,
        )
    if isinstance(layer, HierarchicalSoftmax | LabelTree):
        make = LabelTreeHead if isinstance(layer, LabelTree) else TreeHead
        found = make(
            layer.name,
            layer.tree.num_classes,
            passed.of(layer.tree, counts),
            layer.optimizer,
            layer.use_bias,
        )
        if isinstance(layer, HierarchicalSoftmax):
            focal = bool(layer.focal_gamma)
            found = dataclasses.replace(found, is_focal=focal)
        return found
    return None


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
        return FullHead(value.name, value.units, value.use_bias)
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


def _adaptive(layer, counts):
    if counts is None and layer.spec.ranked_counts is not None:
        counts = layer.spec.ranked_counts
    elif counts is None or isinstance(counts, str):
        counts = passed.zipf(layer.num_classes, counts)
    else:
        counts = np.sort(_checks.check_counts(counts, layer.num_classes))[::-1]
    return AdaptiveHead(layer.name, layer.num_classes, layer, counts)
