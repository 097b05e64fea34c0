"""Models whose vocabulary shrinks."""

from typing import Any, NamedTuple

import keras
import numpy as np

from tf_hsm import _model_copy
from tf_hsm.layers.pruned_layer import kept
from tf_hsm.runtime import kept_rows
from tf_hsm.tree.pruned_tree import mean_weights


class PrunedModel(NamedTuple):
    """The result of `tf_hsm.prune`.

    Attributes:
      model: the pruned `keras.Model`.
      classes: `[N]` int64, the new class of each old class; -1 for a class
        that was dropped.
    """

    model: Any
    classes: np.ndarray


def prune(model, keep, *, merge=True, counts=None, embeddings=(), head=None):
    """Returns a copy of a model whose head has fewer classes.

    The head is `head.prune(keep, merge=merge, counts=counts).head`. All other
    weights are copied, and so is the state of the optimizer that the model was
    compiled with: its steps, its rate and the slots of all rows that are kept.
    So `fit` goes on where it was. The model itself stays as it is.

    By default, removed classes fall to their parents: every kept class has the
    log-probability that it had, to the bit, and the new classes from K on stand
    for the removed ones, as `<unk>` does in a language model. With
    `merge=False` there are exactly K classes. `Tree.prune` describes both.

    >>> model = keras.models.load_model("model.keras")
    >>> pruned = tf_hsm.prune(model, 10_000)
    >>> pruned.model.fit(x, pruned.classes[y])

    Where labels and tokens are the same words, name the embedding of the tokens
    too: `model.fit(classes[x], classes[y])`. Kept classes keep their rows and
    slots. The row of a merged class begins as the mean of the rows of its
    classes, by counts.

    Args:
      model: a Sequential or functional `keras.Model`, compiled or not.
      keep: how many of the most frequent classes, an integer; or which share of
        the classes, a float between 0 and 1; or `[N]` bools; or a list of
        classes.
      merge: whether removed classes fall to their parents or vanish.
      counts: `[N]`, how often each class occurs; when None, the counts of the
        tree.
      embeddings: `keras.layers.Embedding` layers of the model, or their names.
        Their rows are the classes of the head.
      head: the layer to prune, where the model has several heads.

    Returns:
      A named tuple: the new `model`; and `classes` `[N]`, the new class of each
      old class, or -1. With NumPy, label -1 of a padded sequence would select
      the last class: take `np.where(y < 0, y, classes[y])` there.

    Raises:
      TypeError: one of `embeddings` is no `Embedding`.
      ValueError: the head cannot be pruned so (`Tree.prune` and `prune` of the
        layer say when); an embedding has not one row for each class, or masks
        class 0, which is not kept; or the model has no head or several, is one
        whose layers are not known, or has an optimizer with a state of all rows
        together.
    """
    head = _model_copy.head_of(model, head, "prune")
    if not hasattr(head, "prune"):
        raise ValueError(
            f"{head.name}: prune is not possible for {type(head).__name__}, "
            "whose classes lie in several trees; train a layer for fewer "
            "classes instead"
        )
    tables = [_model_copy.embedding_of(model, x, "prune") for x in embeddings]
    pruned = head.prune(keep, merge=merge, counts=counts)
    if counts is None:
        counts = head.tree.counts
    for table in tables:
        _check(table, head, pruned.classes)

    def copy_rows(table, smaller):
        return _copy_rows(table, smaller, pruned.classes, counts)

    made = _model_copy.with_head(
        model,
        head,
        pruned.head,
        kept(head, pruned.rows),
        [(x, pruned.head.num_classes, copy_rows) for x in tables],
        "prune",
    )
    return PrunedModel(made, pruned.classes)


def _check(table, head, classes):
    if table.input_dim != head.num_classes:
        raise ValueError(
            f"{table.name} has {table.input_dim} rows, but {head.name} has "
            f"{head.num_classes} classes; an embedding is pruned with the head "
            "where row c is class c"
        )
    if table.mask_zero and classes[0] != 0:
        raise ValueError(
            f"{table.name} has mask_zero, so that token 0 is no word; keep "
            "class 0"
        )


def _copy_rows(table, smaller, classes, counts):
    """Copies the rows of an embedding; returns them as `kept_rows` has it."""
    old = np.flatnonzero(classes >= 0)
    sizes = np.bincount(classes[old])
    rows = np.empty(sizes.size, np.int64)
    rows[classes[old]] = old
    rows[sizes > 1] = -1
    merged = old[sizes[classes[old]] > 1]
    shares = mean_weights(classes, counts)[merged, None]
    vectors = keras.ops.take(table.embeddings.value, merged, axis=0)
    vectors = keras.ops.convert_to_numpy(vectors).astype(np.float64)
    places = np.cumsum(sizes > 1) - 1
    means = np.zeros([(sizes > 1).sum(), table.output_dim])
    np.add.at(means, places[classes[merged]], shares * vectors)
    kept_rows.copy(
        table.embeddings,
        smaller.embeddings,
        rows,
        lambda new_rows: means[places[new_rows]],
    )
    return rows
