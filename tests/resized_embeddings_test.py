"""Embeddings of tokens that go with the classes; arguments that are wrong."""

import functools
import itertools

import keras
import numpy as np
import pytest

import tf_hsm
from tests.support.in_place_models import fit
from tests.support.models import (
    NUM_CLASSES,
    STEPS,
    TREE,
    WIDTH,
    make_data,
    make_head,
    sequential,
)
from tests.support.resized_models import (
    CHANGES,
    COUNTS,
    FEW,
    GROWN,
    KEEP,
    fit_eagerly,
    pruning,
)
from tests.support.update_rules import OPTIMIZERS

WAYS = {
    "grow": (CHANGES["grow"], None),
    "merge": (pruning(KEEP), None),
    "merge by counts": (pruning(KEEP, counts=COUNTS.tolist()), COUNTS),
    "drop": (pruning(KEEP, merge=False, counts=COUNTS.tolist()), COUNTS),
}


@pytest.mark.parametrize(
    "rule, by_name, padding", [("lazy_adam", True, 0), ("adagrad", False, 2)]
)
@pytest.mark.parametrize("way", WAYS)
def test_embeddings(way, rule, by_name, padding):
    """Kept rows and slots stay; a row of new or merged tokens is a mean."""
    change, counts = WAYS[way]
    tokens_of, size = change.classes, NUM_CLASSES
    if way == "grow":
        size += padding
        tokens_of = np.arange(size)
    table = keras.layers.Embedding(size, WIDTH, name="tokens")
    head = make_head(TREE.with_counts(None))
    tokens = keras.Input([STEPS], dtype="int32")
    model = keras.Model(tokens, head(sequential(table)(tokens)))
    model.compile(OPTIMIZERS[rule](), head.loss)
    x, y = make_data()
    fit_eagerly(model, {"x": x, "y": y})
    changed = change.apply(model, embeddings=["tokens" if by_name else table])
    (new,) = (x for x in changed._flatten_layers() if x.name == "tokens")
    total = change.tree.num_classes + size - NUM_CLASSES
    assert new.input_dim == total
    old_rows, rows = (v.get_weights()[0] for v in (table, new))
    slots = zip(
        changed.optimizer.slots(new._embeddings),
        model.optimizer.slots(table._embeddings),
        strict=True,
    )
    slots = [[one.numpy(), other.numpy()] for one, other in slots]
    num_means = 0
    for token in range(total):
        old = np.flatnonzero(tokens_of == token)
        if old.size == 1:
            np.testing.assert_array_equal(rows[token], old_rows[old[0]])
            for slot, its in slots:
                np.testing.assert_array_equal(slot[token], its[old[0]])
            continue
        num_means += 1
        old = old if old.size else np.arange(size)
        weights = None if counts is None else counts[old]
        mean = np.average(old_rows[old], 0, weights)
        np.testing.assert_allclose(rows[token], mean, 1e-4, 1e-6)
        for slot, _ in slots:
            assert np.unique(slot[token]).size == 1  # as it begins
    assert (num_means > 0) == (way != "drop")
    changed.run_eagerly = True
    fit(changed, {"x": (x + total - 1) % total, "y": y % FEW})


grow = functools.partial(tf_hsm.grow, tree=GROWN)
prune = functools.partial(tf_hsm.prune, keep=KEEP)


@pytest.mark.parametrize(
    "call, options, error, message",
    [
        (grow, {"counts": [1, 2]}, ValueError, "counts has 2 entries"),
        (grow, {"embeddings": ["lora"]}, ValueError, "lora has other weights"),
        (prune, {"keep": 5, "counts": [1]}, ValueError, "counts has 1 entries"),
        (
            prune,
            {"embeddings": ["more"]},
            ValueError,
            "more has 33 rows, but .* has 30",
        ),
        (
            prune,
            {"embeddings": ["masked"]},
            ValueError,
            "masked has mask_zero, so that token 0 is no word; keep class 0",
        ),
        *(
            (call, {"embeddings": [name]}, error, message)
            for call in (grow, prune)
            for name, error, message in (
                ("none", ValueError, "has no layer 'none'"),
                ("dense", TypeError, "dense is a Dense; embeddings"),
            )
        ),
    ],
    ids=itertools.count(),
)
def test_refused_arguments(call, options, error, message):
    tokens = keras.Input([STEPS], dtype="int32")
    tables = [
        keras.layers.Embedding(NUM_CLASSES + 3, WIDTH, name="more"),
        keras.layers.Embedding(
            NUM_CLASSES, WIDTH, mask_zero=True, name="masked"
        ),
        keras.layers.Embedding(NUM_CLASSES, WIDTH, lora_rank=2, name="lora"),
    ]
    hidden = keras.layers.Add()([table(tokens) for table in tables])
    hidden = keras.layers.Dense(WIDTH, name="dense")(hidden)
    head = make_head(TREE.with_counts(None))
    with pytest.raises(error, match=message):
        call(keras.Model(tokens, head(hidden)), **options)
