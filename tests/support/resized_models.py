"""Ways to give the models of `models` another number of classes."""

import itertools
from collections.abc import Callable
from typing import NamedTuple

import keras
import numpy as np

import tf_hsm
from tests.support.in_place_models import arguments, fit
from tests.support.models import (
    NUM_CLASSES,
    TREE,
    WIDTH,
    head_of,
    make_data,
    make_head,
)

# The new classes go beside these, whose group has no others.
GROUP = TREE.row_groups[TREE.class_rows[0]]
NEAR = np.flatnonzero(TREE.row_groups[TREE.class_rows] == GROUP)
GROWN = TREE.grow(4, near=np.resize(NEAR, 4))

# The tree is the Huffman tree of these, so rare classes share subtrees.
COUNTS = 1 + np.arange(NUM_CLASSES) ** 2
FEW = 9
KEEP = np.arange(NUM_CLASSES - FEW, NUM_CLASSES)
TWO_STEPS = {"epochs": 1, "batch_size": 11}


class Change(NamedTuple):
    """A way to change the classes of a model, and its results.

    Attributes:
      apply: a function from a model, and options, to the new model.
      tree: the tree of the new head.
      rows: the old row of each of its rows, or -1.
      classes: `[N]`, the new class of each old class, or -1.
      trained: the classes that train alike in both models.
      verb: the name of the function.
    """

    apply: Callable
    tree: tf_hsm.Tree
    rows: np.ndarray
    classes: np.ndarray
    trained: np.ndarray
    verb: str


def pruning(keep, **options):
    pruned = TREE.prune(keep, **options)

    def apply(model, **more):
        made, classes = tf_hsm.prune(model, keep, **options, **more)
        np.testing.assert_array_equal(classes, pruned.classes)
        return made

    return Change(
        apply, pruned.tree, pruned.rows, pruned.classes, KEEP, "prune"
    )


CHANGES = {
    "grow": Change(
        lambda model, **options: tf_hsm.grow(model, GROWN, **options),
        GROWN,
        GROWN.map_rows(TREE),
        np.arange(NUM_CLASSES),
        np.setdiff1d(np.arange(NUM_CLASSES), NEAR),
        "grow",
    ),
    "prune": pruning(FEW, counts=COUNTS),
    "drop": pruning(KEEP, merge=False),
}


def data_of(form, change, classes=None):
    """Data of labels that train alike, under their old or new numbers."""
    tokens, labels = make_data()
    labels = change.trained[labels % change.trained.size]
    return arguments(
        form, tokens, labels if classes is None else classes[labels]
    )


def assert_same_state(new, old, rows):
    """All weights, kept rows and slots equal the old model's.

    `rows` are what `Change` has; None where the new rows are the last ones.
    """
    # Both build their optimizers in the order of their layers.
    optimizers = [[new.optimizer, old.optimizer]]
    heads = head_of(new), head_of(old)
    if heads[0].optimizer is not None:
        optimizers.append([head.optimizer for head in heads])
    variables = zip(new.variables, old.variables, strict=True)
    states = (
        zip(one.variables, other.variables, strict=True)
        for one, other in optimizers
    )
    num_of_rows = 0
    for mine, its in itertools.chain(variables, *states):
        mine, its = mine.numpy(), its.numpy()
        if rows is not None and mine.shape[:1] == (rows.size,):
            mine, its = mine[rows >= 0], its[rows[rows >= 0]]
            num_of_rows += 1
        elif rows is None and mine.shape != its.shape:
            mine = mine[: len(its)]
            num_of_rows += 1
        np.testing.assert_array_equal(mine, its)
    assert num_of_rows >= 2


def check_goes_on(model, change, rows, data, new_data, learned, folder=None):
    """Asserts that a changed model trains as the old one where nothing changed.

    Args:
      model: a model.
      change: a function from a model to the new one.
      rows: see `assert_same_state`.
      data: arguments of `fit`.
      new_data: the same for the new model, or None if its losses are others.
      learned: data that the new model learns.
      folder: where to save the model and the new one; the loaded ones go on.

    Returns:
      The new model.
    """
    tree = getattr(head_of(model), "tree", None)
    fit(model, data, **TWO_STEPS)
    if folder is None:
        changed = change(model)
    else:
        model.save(folder / "model.keras")
        changed = change(keras.models.load_model(folder / "model.keras"))
        changed.save(folder / "changed.keras")
        changed = keras.models.load_model(folder / "changed.keras")
        changed.run_eagerly = model.run_eagerly
    assert_same_state(changed, model, rows)
    assert getattr(head_of(model), "tree", None) == tree
    if new_data is not None:
        np.testing.assert_array_equal(
            fit(changed, new_data, **TWO_STEPS), fit(model, data, **TWO_STEPS)
        )
        assert_same_state(changed, model, rows)
    losses = fit(changed, learned, epochs=6, batch_size=11)
    assert losses[-1] < losses[0]
    return changed


def fit_eagerly(model, data):
    """Makes a state to begin from, of two steps; traces nothing."""
    model.run_eagerly = True
    fit(model, data, **TWO_STEPS)
    model.run_eagerly = False


def of_layers(*layers):
    return keras.Sequential([keras.Input([WIDTH]), *layers])


def two_heads():
    x = keras.Input([WIDTH])
    heads = make_head(name="one"), make_head(name="two")
    return keras.Model(x, [head(x) for head in heads])
