"""Models whose vocabulary grows."""

import keras
import numpy as np

from tf_hsm import _model_copy
from tf_hsm.layers.grown_layer import kept
from tf_hsm.runtime import kept_rows


def grow(model, tree, *, counts=None, embeddings=(), head=None, like=None):
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
    the mean of its rows; or, with `like`, as the row of that class.

    >>> twins = [7, 30]  # what two new items are like
    >>> tree = model.layers[-1].tree.grow(2, near=twins)
    >>> model = tf_hsm.grow(model, tree, embeddings=["items"], like=twins)

    Args:
      model: a Sequential or functional `keras.Model`, compiled or not.
      tree: a `tf_hsm.Tree` whose first classes are the classes of the head, as
        from `Tree.grow` or `Tree.rebalance`; for an `AdaptiveSoftmax` or a
        `SampledSoftmax`, how many classes there are now.
      counts: how often each class occurs, for the start values of new rows: see
        `grow` of the head. `[N]` for the new tree; for a `LabelTree`, its
        `tf_hsm.LabelCounts`.
      embeddings: `keras.layers.Embedding` layers of the model, or their names.
      head: the layer to grow, where the model has several heads.
      like: `[M]`, the old class that each new class begins as a copy of; see
        `HierarchicalSoftmax.grow`, which has it as `EmbeddingSoftmax` has.

    Raises:
      TypeError: `tree` is not a `tf_hsm.Tree`, or one of `embeddings` no
        `Embedding`.
      ValueError: the model has no head, or several; is one whose layers are not
        known; or has an optimizer with a state of all rows together.
    """
    head = _model_copy.head_of(model, head, "grow")
    options = {} if like is None else {"like": like}
    grown_head = head.grow(tree, counts, **options)
    num_new = grown_head.num_classes - head.num_classes
    tables = [_model_copy.embedding_of(model, x, "grow") for x in embeddings]
    return _model_copy.with_head(
        model,
        head,
        grown_head,
        kept(head, grown_head),
        [
            (x, x.input_dim + num_new, lambda *pair: _copy_rows(*pair, like))
            for x in tables
        ],
        "grow",
    )


def _copy_rows(table, larger, like):
    """Copies the rows of an embedding; returns them as `kept_rows` has it."""
    rows = np.arange(larger.input_dim)
    rows[table.input_dim :] = -1
    values = table.embeddings.value
    mean = keras.ops.mean(values, axis=0).numpy()

    def start(new_rows):
        if like is None:
            return mean
        old = np.asarray(like)[new_rows - table.input_dim]
        return keras.ops.take(values, old, axis=0).numpy()

    kept_rows.copy(table.embeddings, larger.embeddings, rows, start)
    return rows
