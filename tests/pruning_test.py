"""Models that get a head for fewer classes; see `resized_models_test`."""

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
    head_of,
    make_data,
    make_head,
    sequential,
)
from tests.support.resized_models import (
    COUNTS,
    FEW,
    KEEP,
    assert_same_state,
)
from tests.support.update_rules import OPTIMIZERS


def test_a_share_of_the_classes():
    """By the counts of the tree."""
    model = sequential(
        keras.layers.Embedding(NUM_CLASSES, WIDTH),
        make_head(TREE.with_counts(COUNTS)),
    )
    pruned, classes = tf_hsm.prune(model, 0.3)
    np.testing.assert_array_equal(
        classes, TREE.prune(FEW, counts=COUNTS).classes
    )
    assert head_of(pruned).num_classes == classes.max() + 1


@pytest.mark.parametrize("merge", [True, False])
def test_pinned_head(merge):
    tree = tf_hsm.Tree.huffman(COUNTS).pin()
    model = sequential(keras.layers.Embedding(8, WIDTH), make_head(tree))
    model.compile("adam", head_of(model).loss, run_eagerly=merge)
    tokens, labels = make_data()
    tokens, labels = tokens % 8, KEEP[labels % FEW]
    model.fit(tokens, labels, verbose=0)
    pruned, classes = tf_hsm.prune(model, KEEP, merge=merge)
    rows = tree.prune(KEEP, merge=merge).rows
    assert_same_state(pruned, model, rows[::2] // 2)
    pruned.fit(tokens, classes[labels], verbose=0)


@pytest.mark.parametrize("merge, with_counts", [(1, 1), (1, 0), (0, 1)])
@pytest.mark.parametrize("rule, by_name", [("lazy_adam", 1), ("adagrad", 0)])
def test_embeddings(rule, by_name, merge, with_counts):
    """Tokens go with the classes; merged ones begin as a mean."""
    table = keras.layers.Embedding(NUM_CLASSES, WIDTH, name="tokens")
    head = make_head(TREE.with_counts(None))
    tokens = keras.Input([STEPS], dtype="int32")
    model = keras.Model(tokens, head(sequential(table)(tokens)))
    model.compile(OPTIMIZERS[rule](), head.loss, run_eagerly=True)
    x, y = make_data()
    fit(model, {"x": x, "y": y})
    pruned, classes = tf_hsm.prune(
        model,
        KEEP,
        merge=bool(merge),
        counts=COUNTS.tolist() if with_counts else None,
        embeddings=["tokens" if by_name else table],
    )
    (new,) = (x for x in pruned._flatten_layers() if x.name == "tokens")
    assert new.input_dim == head_of(pruned).num_classes
    old_rows, rows = (v.get_weights()[0] for v in (table, new))
    num_merged = 0
    slots = zip(
        pruned.optimizer.slots(new._embeddings),
        model.optimizer.slots(table._embeddings),
        strict=True,
    )
    slots = [[one.numpy(), other.numpy()] for one, other in slots]
    for c in range(new.input_dim):
        old = np.flatnonzero(classes == c)
        weights = COUNTS[old] if with_counts else np.ones(old.size)
        if old.size == 1:
            np.testing.assert_array_equal(rows[c], old_rows[old[0]])
            for slot, its in slots:
                np.testing.assert_array_equal(slot[c], its[old[0]])
        else:
            num_merged += 1
            np.testing.assert_allclose(
                rows[c], np.average(old_rows[old], 0, weights), 1e-5, 1e-6
            )
            for slot, _ in slots:
                assert np.unique(slot[c]).size == 1  # as it begins
    assert (num_merged > 0) == merge
    x, y = x % FEW, y % FEW
    fit(pruned, {"x": x, "y": y})


def test_embeddings_and_head_have_the_same_words():
    """A kept token leads to the probabilities that it led to."""
    table = keras.layers.Embedding(NUM_CLASSES, WIDTH, name="tokens")
    model = sequential(table, make_head())
    pruned, classes = tf_hsm.prune(model, KEEP, embeddings=["tokens"])
    x = np.resize(KEEP, [4, STEPS])
    hidden = [m.layers[0](i) for m, i in ((model, x), (pruned, classes[x]))]
    old, new = (
        head_of(m).log_probs(h).numpy()
        for m, h in zip((model, pruned), hidden, strict=True)
    )
    np.testing.assert_array_equal(new[..., :FEW], old[..., KEEP])


@pytest.mark.parametrize(
    "options, error, message",
    [
        ({"keep": 31}, ValueError, "keep is 31; the tree has 30 classes"),
        ({"keep": 5, "counts": [1]}, ValueError, "counts has 1 entries"),
        ({"keep": 5}, ValueError, "the tree has no counts"),
        ({"embeddings": ["none"]}, ValueError, "has no layer 'none'"),
        ({"embeddings": ["dense"]}, TypeError, "dense is a Dense; embeddings"),
        (
            {"embeddings": ["more"]},
            ValueError,
            "more has 33 rows, but .* has 30",
        ),
        (
            {"embeddings": ["masked"]},
            ValueError,
            "masked has mask_zero, so that token 0 is no word; keep class 0",
        ),
    ],
    ids=itertools.count(),
)
def test_refused_arguments(options, error, message):
    tokens = keras.Input([STEPS], dtype="int32")
    layers = [
        keras.layers.Embedding(NUM_CLASSES + 3, WIDTH, name="more"),
        keras.layers.Embedding(
            NUM_CLASSES, WIDTH, mask_zero=True, name="masked"
        ),
    ]
    hidden = keras.layers.Add()([layer(tokens) for layer in layers])
    hidden = keras.layers.Dense(WIDTH, name="dense")(hidden)
    tree = TREE.with_counts(None)
    model = keras.Model(tokens, make_head(tree)(hidden))
    with pytest.raises(error, match=message):
        tf_hsm.prune(model, **{"keep": KEEP, **options})


def test_a_tied_head_is_refused():
    table = keras.layers.Embedding(NUM_CLASSES, WIDTH)
    tree = tf_hsm.Tree.flat(NUM_CLASSES)
    model = sequential(table, make_head(tree, tied_to=table))
    with pytest.raises(ValueError, match="prune is not possible with tied_to"):
        tf_hsm.prune(model, KEEP)
