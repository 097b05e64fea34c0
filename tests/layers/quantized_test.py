"""Layers after `quantize`: answers, files, models."""

import keras
import numpy as np
import pytest
import tensorflow as tf

import tf_hsm
from tests.support import heads_by_name
from tests.support.pairs import all_pairs

N, WIDTH = 300, 65
RNG = np.random.default_rng(3)
X = RNG.normal(size=[40, WIDTH]).astype("float32")
Y = RNG.integers(N, size=40)
LAYERS = {
    "two levels": lambda **kw: tf_hsm.layers.HierarchicalSoftmax(
        tf_hsm.Tree.two_level(N), **kw
    ),
    "flat with a soft cap": lambda **kw: tf_hsm.layers.HierarchicalSoftmax(
        tf_hsm.Tree.flat(N), logit_soft_cap=5.0, **kw
    ),
    "pinned": lambda **kw: tf_hsm.layers.HierarchicalSoftmax(
        tf_hsm.Tree.balanced(N, 2).pin(), **kw
    ),
    "no biases": lambda **kw: tf_hsm.layers.HierarchicalSoftmax(
        tf_hsm.Tree.two_level(N), use_bias=False, **kw
    ),
    "adaptive": lambda **kw: tf_hsm.layers.AdaptiveSoftmax(
        N, cutoffs=[40, 120], tail="two_level", **kw
    ),
}


def trained(make, **options):
    head = make(**options)
    model = keras.Sequential(
        [keras.Input([WIDTH]), keras.layers.Dense(WIDTH), head]
    )
    metrics = [tf_hsm.metrics.Perplexity(head)]
    model.compile("adam", loss=head.loss, metrics=metrics, run_eagerly=True)
    model.fit(X, Y, epochs=3, verbose=0)
    return model, head


def hidden(model):
    return model.layers[0](X)


@pytest.mark.parametrize(
    "mode, name, optimizer",
    all_pairs(["int8", "int4"], [*LAYERS], [None, "rowwise_adagrad"]),
)
def test_answers_and_files(mode, name, optimizer, tmp_path):
    model, head = trained(LAYERS[name], optimizer=optimizer)
    before = head.log_probs(hidden(model)).numpy()
    rows = [part.weights.numpy() for part in head._tree_heads()]
    model.quantize(mode, filters=lambda layer: layer is head)
    assert head.quantization_mode == mode and model.quantization_mode is None
    assert not any(v.name.endswith("kernel") for v in head.variables)
    for part, old in zip(head._tree_heads(), rows, strict=True):
        np.testing.assert_array_equal(
            part.weights.numpy(), tf_hsm.quantize_rows(old, mode).numpy()
        )
    after = head.log_probs(hidden(model)).numpy()
    assert 0 < abs(after - before).max() < (0.5 if mode == "int8" else 5)
    loss = model.evaluate(X, Y, verbose=0)[0]
    np.testing.assert_allclose(loss, -after[np.arange(40), Y].mean(), rtol=1e-5)

    def check(other):
        np.testing.assert_array_equal(other.log_probs(hidden(model)), after)

    model.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    check(loaded.layers[-1])
    np.testing.assert_allclose(loaded.evaluate(X, Y, verbose=0)[0], loss)
    model.save_weights(tmp_path / "model.weights.h5")
    clone = keras.models.clone_model(model)
    clone.load_weights(tmp_path / "model.weights.h5")
    check(clone.layers[-1])
    # Files hold the codes alone, and what their rows stand for.
    store = {}
    head.save_own_variables(store)
    assert sum(np.asarray(v).nbytes for v in store.values()) == 16 + sum(
        np.asarray(v).nbytes for v in head.variables
    )
    for checkpoint_of in (
        lambda head: tf.train.Checkpoint(head=head),
        tf_hsm.distribute.checkpoint,
    ):
        path = checkpoint_of(head).save(tmp_path / "checkpoint")
        other = type(head).from_config(head.get_config())
        other(hidden(model))
        checkpoint_of(other).restore(path).assert_consumed()
        check(other)


@pytest.mark.parametrize(
    "name, mode",
    [
        ("LabelTree", "int8"),
        ("EmbeddingSoftmax", "int8"),
        ("EmbeddingSoftmax", "int4"),
    ],
)
def test_other_layers(name, mode):
    """Their answers are the answers of the decoded rows."""
    head, twin = (
        heads_by_name.built(name, kernel_initializer="zeros") for _ in "ab"
    )
    x = heads_by_name.inputs(name)
    before, rows = head.top_k(x, 3), head.kernel.numpy()
    head.quantize(mode)
    twin.kernel.assign(head.kernel.numpy())
    assert abs(twin.kernel.numpy() - rows).max() > 0
    np.testing.assert_allclose(head.log_probs(x), twin.log_probs(x), rtol=1e-5)
    found = head.top_k(x, 3)
    np.testing.assert_array_equal(found.classes, twin.top_k(x, 3).classes)
    head.kernel.keep(rows)
    found = head.top_k(x, 3, rescore=heads_by_name.NUM_CLASSES)
    np.testing.assert_array_equal(found.classes, before.classes)


def test_an_export_serves_the_codes(tmp_path):
    model, head = trained(LAYERS["two levels"])
    model.quantize("int8", filters=lambda layer: layer is head)
    expected = head.top_k(hidden(model), 4)
    tf_hsm.serving.export(model, str(tmp_path / "served"), k=4)
    served = tf.saved_model.load(str(tmp_path / "served"))
    (name,) = (
        spec
        for spec in served.signatures[
            "serving_default"
        ].structured_input_signature[1]
    )
    found = served.signatures["serving_default"](**{name: X})
    np.testing.assert_array_equal(found["classes"], expected.classes)
    np.testing.assert_array_equal(found["log_probs"], expected.log_probs)
    size = sum(
        f.stat().st_size for f in (tmp_path / "served/variables").iterdir()
    )
    assert size < head.tree.num_rows * WIDTH * 2 + WIDTH * WIDTH * 4 + 60_000


def test_refusals():
    model, head = trained(LAYERS["two levels"])
    model.quantize("int8")
    with pytest.raises(ValueError, match="quantized and cannot train"):
        model.fit(X, Y, verbose=0)
    for verb, ask in {
        "grow": lambda: head.grow(head.tree.grow(["a"])),
        "prune": lambda: head.prune(20),
        "regroup": lambda: head.regroup(head.tree),
    }.items():
        with pytest.raises(ValueError, match=f"{verb}.*int8; do it before"):
            ask()
    with pytest.raises(ValueError, match="already quantized"):
        head.quantize("int8")
    tree = tf_hsm.Tree.two_level(N)
    with pytest.raises(ValueError, match="built"):
        tf_hsm.layers.HierarchicalSoftmax(tree).quantize("int8")
    for other in (
        tf_hsm.layers.HierarchicalSoftmax(tree, dtype="float64"),
        tf_hsm.layers.SampledSoftmax(N, num_sampled=10),
    ):
        other(X)
        with pytest.raises(NotImplementedError, match="no quantized weights"):
            other.quantize("int8")
    model, head = trained(LAYERS["two levels"])
    with pytest.raises(NotImplementedError, match="float8"):
        head.quantize("float8")
    with pytest.warns(UserWarning, match="no quantized weights"):
        model.quantize("float8")


def test_an_error_changes_nothing():
    model, head = trained(LAYERS["two levels"], optimizer="sgd")
    rows = head.kernel.numpy()
    head.kernel.assign(rows * np.nan)
    with pytest.raises(ValueError, match="finite"):
        head.quantize("int8")
    head.kernel.assign(rows)
    assert head.quantization_mode is None and head.optimizer is not None
    assert {v.name for v in head.variables} == {"kernel", "bias", "step"}
    model.fit(X, Y, verbose=0)
    head.quantize("int8")


def test_a_tied_embedding_must_keep_floats(tmp_path):
    tokens = keras.Input([], dtype="int32")
    embedding = keras.layers.Embedding(N, 8)
    head = tf_hsm.layers.HierarchicalSoftmax(
        tf_hsm.Tree.flat(N), tied_to=embedding
    )
    model = keras.Model(tokens, head(embedding(tokens)))
    model.quantize("int8", filters=lambda layer: layer is not embedding)
    hidden = model.predict(Y, verbose=0)
    head.predict_class(hidden)
    model.quantize("int8")
    for ask in (
        lambda: head.predict_class(hidden),
        lambda: model.save(tmp_path / "model.keras"),
    ):
        with pytest.raises(ValueError, match=r"its Embedding .* is quantized"):
            ask()


def test_policies_of_types():
    tree = tf_hsm.Tree.two_level(N)
    for policy in (
        "float8_from_float32",
        "int4/128_from_float32",
        "int8_from_bfloat16",
        "int8_from_float64",
    ):
        head = tf_hsm.layers.HierarchicalSoftmax(tree, dtype=policy)
        with pytest.raises(ValueError, match="no quantized weights for"):
            head(X)
    head = tf_hsm.layers.SampledSoftmax(
        N, num_sampled=10, dtype="int8_from_float32"
    )
    with pytest.raises(ValueError, match="a SampledSoftmax has rows of floats"):
        head(X)
    head = tf_hsm.layers.HierarchicalSoftmax(tree, dtype="int4/64_from_float32")
    head(X)
    with pytest.raises(ValueError, match="already quantized"):
        head.quantize("int8")
    head = tf_hsm.layers.HierarchicalSoftmax(tree)
    head(X)
    head.dtype_policy = "int8_from_float32"
    assert isinstance(head.kernel, tf_hsm.QuantizedRows)
    assert head.dtype_policy.name == "int8_from_float32"


def test_what_needs_rows_of_floats():
    head = tf_hsm.layers.AdaptiveSoftmax(
        N, cutoffs=[40, 120], div_value=2.0, width=WIDTH
    )
    head(X)
    head.quantize("int8")
    for words, ask in {
        "an embedding": lambda: head.embed(np.arange(5)),
        "grow": lambda: head.grow(N + 5),
        "rescore": lambda: head.top_k(X, 3, rescore=9),
    }.items():
        with pytest.raises(ValueError, match=f"{words} is not possible"):
            ask()


@pytest.mark.parametrize(
    "mode, name",
    [
        ("int8", "two levels"),
        ("int4", "two levels"),
        ("int8", "pinned"),
        ("int4", "no biases"),
    ],
)
def test_original_rows_rank_candidates(mode, name, tmp_path):
    model, head = trained(LAYERS[name])
    expected = head.top_k(hidden(model), 3)
    np.save(tmp_path / "rows.npy", head.kernel.numpy())
    model.quantize(mode, filters=lambda layer: layer is head)
    head.kernel.keep(np.load(tmp_path / "rows.npy", mmap_mode="r"))
    found = head.top_k(hidden(model), 3, rescore=N)
    assert found.certain.numpy().all()
    np.testing.assert_array_equal(found.classes, expected.classes)
    np.testing.assert_allclose(found.log_probs, expected.log_probs, rtol=1e-5)

    few = tf.function(lambda x: head.top_k(x, 3, rescore=50))(hidden(model))
    is_certain = few.certain.numpy()
    assert is_certain.any() or mode == "int4"
    np.testing.assert_array_equal(
        few.classes.numpy()[is_certain], expected.classes.numpy()[is_certain]
    )
    with pytest.raises(ValueError, match="not possible with KerasTensors"):
        head.top_k(keras.Input([WIDTH]), 3, rescore=50)
    # Files hold the codes alone.
    model.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras").layers[-1]
    with pytest.raises(ValueError, match="needs the original rows"):
        loaded.top_k(hidden(model), 3, rescore=N)
    loaded.kernel.keep(np.load(tmp_path / "rows.npy", mmap_mode="r"))
    again = loaded.top_k(hidden(model), 3, rescore=N)
    np.testing.assert_array_equal(again.classes, found.classes)
    assert len(tf.train.Checkpoint(head=loaded).save(tmp_path / "c")) > 0
    names = [n for n, _ in tf.train.list_variables(tmp_path)]
    assert not any("originals" in n for n in names)


@pytest.mark.parametrize("cls", ["HierarchicalSoftmax", "LabelTree"])
def test_loading_weights_drops_the_original_rows(cls, tmp_path):
    def made():
        keras.utils.set_random_seed(next(seeds))
        head = getattr(tf_hsm.layers, cls)(
            tf_hsm.Tree.two_level(N), kernel_initializer="normal", name="head"
        )
        model = keras.Sequential([keras.Input([WIDTH]), head])
        rows = head.kernel.numpy()
        model.quantize("int8")
        head.kernel.keep(rows)
        return model, head

    seeds = iter(range(2))
    model, head = made()
    other, other_head = made()
    assert head.top_k(X, 3, rescore=N).certain.numpy().all()
    path = tf.train.Checkpoint(head=other_head).write(str(tmp_path / "c"))
    tf.train.Checkpoint(head=head).read(path).assert_consumed()
    assert not head.top_k(X, 3, rescore=N).certain.numpy().any()
    other.save_weights(tmp_path / "other.weights.h5")
    model.load_weights(tmp_path / "other.weights.h5")
    with pytest.raises(ValueError, match="needs the original rows"):
        head.top_k(X, 3, rescore=N)
    np.testing.assert_array_equal(
        head.top_k(X, 3)[1], other_head.top_k(X, 3)[1]
    )
