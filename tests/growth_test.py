"""Models that get a head for more classes; see `resized_models_test`."""

import itertools

import keras
import numpy as np
import pytest

import tf_hsm
from tests.support.in_place_models import fit, make_model
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
    CHANGES,
    GROWN,
    assert_same_state,
    fit_eagerly,
)
from tests.support.update_rules import OPTIMIZERS
from tf_hsm import Tree


def test_policy_of_the_model():
    """By which Keras scales the loss, whatever the policy is by now."""
    keras.config.set_dtype_policy("mixed_float16")
    try:
        below = keras.Input([WIDTH]), keras.layers.Dense(WIDTH)
        model = keras.Sequential([*below, make_head()])
        model.compile("adam", head_of(model).loss)
    finally:
        keras.config.set_dtype_policy("float32")
    x, labels = np.ones([16, WIDTH], "f4"), np.arange(16)
    fit_eagerly(model, {"x": x, "y": labels})
    grown = tf_hsm.grow(model, GROWN)
    assert isinstance(grown.optimizer, keras.optimizers.LossScaleOptimizer)
    assert_same_state(grown, model, CHANGES["grow"].rows)
    assert head_of(grown).compute_dtype == "float16"
    assert keras.config.dtype_policy().name == "float32"


def test_rebalanced_model():
    """Leaves keep weights and slots, in another order."""
    counts = np.arange(NUM_CLASSES)[::-1] ** 3
    tree = TREE.rebalance(counts)
    assert tree != TREE
    model = make_model("compile", "lazy_adam", own=False)
    tokens, labels = make_data()
    fit_eagerly(model, {"x": tokens, "y": labels})
    grown = tf_hsm.grow(model, tree, counts=counts)
    (old_kernel, _), (kernel, _) = (
        head_of(m).get_weights() for m in (model, grown)
    )
    leaves, rows = tree.class_rows, tree.map_rows(TREE)
    np.testing.assert_array_equal(kernel[leaves], old_kernel[rows[leaves]])
    for old, new in zip(
        model.optimizer.slots(head_of(model).kernel),
        grown.optimizer.slots(head_of(grown).kernel),
        strict=True,
    ):
        np.testing.assert_array_equal(
            new.numpy()[leaves], old.numpy()[rows[leaves]]
        )
    losses = fit(grown, {"x": tokens, "y": labels}, epochs=12)
    assert losses[-1] < 0.9 * losses[0]


@pytest.mark.parametrize(
    "rule, padding, by_name", [("lazy_adam", 0, True), ("adagrad", 2, False)]
)
def test_embeddings(rule, padding, by_name):
    """Tokens grow too: old rows and slots stay, new ones begin as the mean."""
    table = keras.layers.Embedding(NUM_CLASSES + padding, WIDTH, name="tokens")
    below = sequential(table)
    head = make_head()
    tokens = keras.Input([STEPS], dtype="int32")
    model = keras.Model(tokens, head(below(tokens)))
    model.compile(OPTIMIZERS[rule](), head.loss)
    x, y = make_data()
    fit_eagerly(model, {"x": x, "y": y})
    grown = tf_hsm.grow(
        model, GROWN, embeddings=["tokens" if by_name else table]
    )
    (new,) = (x for x in grown._flatten_layers() if x.name == "tokens")
    assert new.input_dim == NUM_CLASSES + padding + 4
    old_rows, rows = (v.get_weights()[0] for v in (table, new))
    np.testing.assert_array_equal(rows[:-4], old_rows)
    np.testing.assert_allclose(
        rows[-4:], np.tile(old_rows.mean(0), [4, 1]), rtol=1e-4, atol=1e-6
    )
    for slot, its in zip(
        grown.optimizer.slots(new._embeddings),
        model.optimizer.slots(table._embeddings),
        strict=True,
    ):
        np.testing.assert_array_equal(slot.numpy()[:-4], its)
        assert np.unique(slot.numpy()[-4:]).size == 1  # as they begin
    fit(grown, {"x": x + padding + 4, "y": y + 4})


@pytest.mark.parametrize("name", ["first", "second"])
def test_heads_with_nothing_else_to_train(name):
    """Whichever head grows: the model's optimizer has the anchor of one."""
    inputs = keras.Input([WIDTH])
    heads = [make_head(optimizer="sgd", name=n) for n in ("first", "second")]
    model = keras.Model(inputs, [head(inputs) for head in heads])
    model.compile("sgd", [head.loss for head in heads], run_eagerly=True)
    x, labels = np.ones([4, WIDTH], "f4"), np.arange(4)
    model.fit(x, [labels, labels], verbose=0)
    grown = tf_hsm.grow(model, TREE.grow(2), head=model.get_layer(name))
    others = [grown.get_layer(head.name) for head in heads]
    before = [head.kernel.numpy() for head in others]
    grown.fit(x, [labels, labels], verbose=0)
    for head, old in zip(others, before, strict=True):
        assert (head.kernel.numpy() != old).any()


@pytest.mark.parametrize(
    "options, error, message",
    [
        ({"tree": 7}, TypeError, "tree must be a tf_hsm.Tree"),
        ({"tree": Tree.two_level(29)}, ValueError, "29 classes, fewer than"),
        ({"embeddings": ["none"]}, ValueError, "has no layer 'none'"),
        ({"embeddings": ["dense"]}, TypeError, "dense is a Dense; embeddings"),
        ({"embeddings": ["lora"]}, ValueError, "lora has other weights"),
        ({"counts": [1, 2]}, ValueError, "counts has 2 entries"),
    ],
    ids=itertools.count(),
)
def test_refused_arguments(options, error, message):
    tokens = keras.Input([STEPS], dtype="int32")
    lora = keras.layers.Embedding(NUM_CLASSES, WIDTH, lora_rank=2, name="lora")
    hidden = keras.layers.Dense(WIDTH, name="dense")(lora(tokens))
    model = keras.Model(tokens, make_head()(hidden))
    with pytest.raises(error, match=message):
        tf_hsm.grow(model, **{"tree": GROWN, **options})
