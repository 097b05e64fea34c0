"""Layers after `quantize`: answers, files, models."""

import keras
import numpy as np
import pytest
import tensorflow as tf

import tf_hsm
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
    for part, old in zip(head._tree_heads(), rows, strict=True):
        np.testing.assert_array_equal(
            part.weights.numpy(), tf_hsm.quantize_rows(old, mode).numpy()
        )
    after = head.log_probs(hidden(model)).numpy()
    assert 0 < abs(after - before).max() < (0.5 if mode == "int8" else 5)
    loss = model.evaluate(X, Y, verbose=0)[0]
    np.testing.assert_allclose(loss, -after[np.arange(40), Y].mean(), rtol=1e-5)

    model.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    np.testing.assert_array_equal(
        loaded.layers[-1].log_probs(hidden(model)), after
    )
    np.testing.assert_allclose(loaded.evaluate(X, Y, verbose=0)[0], loss)
    model.save_weights(tmp_path / "model.weights.h5")
    config = keras.models.clone_model(model)
    config.load_weights(tmp_path / "model.weights.h5")
    np.testing.assert_array_equal(
        config.layers[-1].log_probs(hidden(model)), after
    )
    # Files hold the codes alone, and what their rows stand for.
    store = {}
    head.save_own_variables(store)
    assert sum(np.asarray(v).nbytes for v in store.values()) == 16 + sum(
        np.asarray(v).nbytes for v in head.variables
    )
    path = tf.train.Checkpoint(head=head).save(tmp_path / "checkpoint")
    other = type(head).from_config(head.get_config())
    other(hidden(model))
    found = tf.train.Checkpoint(head=other).restore(path)
    found.assert_consumed()
    np.testing.assert_array_equal(other.log_probs(hidden(model)), after)
    path = tf_hsm.distribute.checkpoint(head).save(tmp_path / "by_device")
    other = type(head).from_config(head.get_config())
    other(hidden(model))
    tf_hsm.distribute.checkpoint(other).restore(path).assert_consumed()
    np.testing.assert_array_equal(other.log_probs(hidden(model)), after)


@pytest.mark.parametrize("mode", ["int8", "int4"])
def test_keras_quantizes_the_model(mode, tmp_path):
    model, head = trained(LAYERS["two levels"])
    size = sum(v.shape.num_elements() * 4 for v in [head.kernel])
    model.quantize(mode)
    assert model.layers[0].quantization_mode == mode
    assert head.quantization_mode == mode
    assert isinstance(head.kernel, tf_hsm.QuantizedRows)
    bytes_now = sum(
        np.asarray(v).nbytes for v in (head.kernel.codes, head.kernel.scales)
    )
    # 65 columns have two scales in 4 bits.
    assert bytes_now / size < (0.27 if mode == "int8" else 0.17)
    assert not any(v.name == "kernel" for v in head.variables)
    found = model.predict(X, verbose=0)
    model.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    np.testing.assert_array_equal(loaded.predict(X, verbose=0), found)
    np.testing.assert_array_equal(
        loaded.layers[-1].log_probs(found), head.log_probs(found)
    )


def test_label_trees_and_embeddings():
    tree = tf_hsm.Tree.two_level(N)
    head = tf_hsm.layers.LabelTree(tree, kernel_initializer="normal")
    head(X)
    floats = head.kernel.numpy()
    head.quantize("int8")
    rows = tf.Variable(head.kernel.numpy())
    np.testing.assert_array_equal(
        head.top_k(X, 5).classes,
        tf_hsm.label_tree_top_k(rows, head.bias, X, tree, 5).classes,
    )
    assert abs(rows.numpy() - floats).max() > 0
    head = tf_hsm.layers.EmbeddingSoftmax(
        tree, num_embeddings=20, width=16, kernel_initializer="normal"
    )
    ids = np.arange(20)
    head(ids)
    before = head.log_probs(ids).numpy()
    head.quantize("int8")
    assert 0 < abs(head.log_probs(ids).numpy() - before).max() < 0.01


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


def test_labels_at_inner_nodes():
    tree = tf_hsm.Tree.two_level(N)
    model, head = trained(LAYERS["two levels"], node_labels=True)
    model.quantize("int8", filters=lambda layer: layer is head)
    loss = model.evaluate(X, Y, verbose=0)[0]
    log_probs = head.log_probs(hidden(model), nodes=True).numpy()
    assert log_probs.shape[1] == tree.num_rows
    assert loss == pytest.approx(-log_probs[np.arange(40), Y].mean(), rel=1e-5)


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
    with pytest.raises(ValueError, match="an embedding is not possible"):
        head.embed(np.arange(5))
    with pytest.raises(ValueError, match="grow is not possible"):
        head.grow(N + 5)


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


def test_original_rows_of_other_layers():
    tree = tf_hsm.Tree.two_level(N)
    head = tf_hsm.layers.LabelTree(tree, kernel_initializer="normal")
    head(X)
    expected, rows = head.top_k(X, 3), head.kernel
    head.quantize("int8")
    head.kernel.keep(rows)
    found = head.top_k(X, 3, rescore=N)
    np.testing.assert_array_equal(found.classes, expected.classes)
    head = tf_hsm.layers.EmbeddingSoftmax(
        tree, num_embeddings=20, width=16, kernel_initializer="normal"
    )
    ids = np.arange(20)
    head(ids)
    expected, rows = head.top_k(ids, 3), head.kernel.numpy()
    head.quantize("int4")
    head.kernel.keep(rows)
    found = head.top_k(ids, 3, rescore=N)
    np.testing.assert_array_equal(found.classes, expected.classes)
    head = tf_hsm.layers.AdaptiveSoftmax(N, cutoffs=[40, 120])
    head(X)
    head.quantize("int8")
    with pytest.raises(ValueError, match="rescore is not possible"):
        head.top_k(X, 3, rescore=9)
