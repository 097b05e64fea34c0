"""Models whose vocabulary grows."""

import keras
import numpy as np

from tf_hsm import _model_copy
from tf_hsm.layers.grown_layer import kept
from tf_hsm.runtime import kept_rows


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
      embeddings: `keras.layers.Embedding` layers of the model, or their names.
      head: the layer to grow, where the model has several heads.

    Raises:
      TypeError: `tree` is not a `tf_hsm.Tree`, or one of `embeddings` no
        `Embedding`.
      ValueError: the model has no head, or several; is one whose layers are not
        known; or has an optimizer with a state of all rows together.
    """
    head = _model_copy.head_of(model, head, "grow")
    grown_head = head.grow(tree, counts)
    num_new = grown_head.num_classes - head.num_classes
    tables = [_model_copy.embedding_of(model, x, "grow") for x in embeddings]
    return _model_copy.with_head(
        model,
        head,
        grown_head,
        kept(head, grown_head),
        [(x, x.input_dim + num_new, _copy_rows) for x in tables],
        "grow",
    )


def _copy_rows(table, larger):
    """Copies the rows of an embedding; returns them as `kept_rows` has it."""
    rows = np.arange(larger.input_dim)
    rows[table.input_dim :] = -1
    mean = keras.ops.mean(table.embeddings.value, axis=0).numpy()
    kept_rows.copy(
        table.embeddings, larger.embeddings, rows, lambda new_rows: mean
    )
    return rows
