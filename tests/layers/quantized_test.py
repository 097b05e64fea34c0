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


SETS = {
    "two levels": tf_hsm.Tree.two_level(N),
    "binary": tf_hsm.Tree.balanced(100, 2),
    "huffman": tf_hsm.Tree.huffman(1 / np.arange(1, 90)),
    "flat": tf_hsm.Tree.flat(70),
}


@pytest.mark.parametrize(
    "name, mode, scale", all_pairs([*SETS], ["int8", "int4"], [0.1, 10])
)
def test_losses_of_label_sets(name, mode, scale):
    """Losses equal the losses of the decoded rows, for labels of any shape.

    Logits of up to 300 have log-probabilities that underflow. Some labels
    repeat; some inputs have none.
    """
    tree, labels = SETS[name], RNG.integers(-20, 70, size=[40, 5])
    labels[:, 3], labels[7] = labels[:, 1], -1
    normal = keras.initializers.RandomNormal
    head = tf_hsm.layers.LabelTree(
        tree,
        kernel_initializer=normal(stddev=scale, seed=1),
        bias_initializer=normal(stddev=scale, seed=2),
    )
    head.build([None, WIDTH])
    head.quantize(mode)
    nothing = labels[:, :0]
    wanted, of_nothing = (
        tf_hsm.label_tree_loss(
            head.kernel.numpy(), head.bias.numpy(), given, X, tree
        ).numpy()
        for given in (labels, nothing)
    )
    ragged = tf.ragged.boolean_mask(labels, labels >= 0)
    for x, given, losses in (
        (X, labels, wanted),
        (X, ragged, wanted),
        (X, nothing, of_nothing),
        (X[:0], labels[:0], wanted[:0]),
        (X.reshape([5, 8, -1]), labels.reshape([5, 8, 5]), wanted),
    ):
        found = head(x, given)
        assert found.shape == x.shape[:-1]
        losses = losses.reshape(found.shape)
        np.testing.assert_allclose(found, losses, rtol=1e-5, atol=1e-5)
    with (
        tf.GradientTape(),
        pytest.raises(ValueError, match="quantized and cannot train"),
    ):
        head(X, labels)
    labels[2, 1] = tree.num_classes
    with pytest.raises(tf.errors.InvalidArgumentError, match="must be below"):
        head(X, labels)


def test_an_export_serves_the_codes(tmp_path):
    model, head = trained(LAYERS["two levels"])
    model.quantize("int8", filters=lambda layer: layer is head)
    expected = head.top_k(hidden(model), 4)
    tf_hsm.serving.export(model, str(tmp_path / "served"), k=4)
    served = tf.saved_model.load(str(tmp_path / "served"))
    serve = served.signatures["serving_default"]
    (name,) = serve.structured_input_signature[1]
    found = serve(**{name: X})
    np.testing.assert_array_equal(found["classes"], expected.classes)
    np.testing.assert_array_equal(found["log_probs"], expected.log_probs)
    size = sum(
        f.stat().st_size for f in (tmp_path / "served/variables").iterdir()
    )
    assert size < head.tree.num_rows * WIDTH * 2 + WIDTH * WIDTH * 4 + 60_000


def made(mode=None, name="HierarchicalSoftmax", **options):
    head = heads_by_name.make(name, **options)
    head.build([None, heads_by_name.WIDTH])
    if mode is not None:
        head.quantize(mode)
    return head


def adaptive():
    return made("int8", "AdaptiveSoftmax", width=heads_by_name.WIDTH)


TREE = heads_by_name.TREE
INT4 = "int4/64_from_float32"
# Words of the error, and the call.
REFUSALS = [
    ("grow.*int8; do it before", lambda: made("int8").grow(TREE.grow(2))),
    ("prune.*int8; do it before", lambda: made("int8").prune(20)),
    ("regroup.*int8; do it before", lambda: made("int8").regroup(TREE)),
    ("already quantized", lambda: made("int8").quantize("int8")),
    ("already quantized", lambda: made(dtype=INT4).quantize("int8")),
    ("built", lambda: heads_by_name.make("LabelTree").quantize("int8")),
    ("no quantized weights", lambda: made("int8", dtype="float64")),
    ("no quantized weights", lambda: made("int8", "SampledSoftmax")),
    ("float8", lambda: made("float8")),
    *(
        ("no quantized weights for", lambda dtype=dtype: made(dtype=dtype))
        for dtype in (
            "float8_from_float32",
            "int4/128_from_float32",
            "int8_from_bfloat16",
            "int8_from_float64",
        )
    ),
    (
        "a SampledSoftmax has rows of floats",
        lambda: made(name="SampledSoftmax", dtype="int8_from_float32"),
    ),
    ("an embedding is not possible", lambda: adaptive().embed([1])),
    ("grow is not possible", lambda: adaptive().grow(40)),
    (
        "rescore is not possible",
        lambda: adaptive().top_k(np.ones([1, 6]), 3, rescore=9),
    ),
    (
        "not possible with KerasTensors",
        lambda: made("int8").top_k(keras.Input([6]), 3, rescore=9),
    ),
]


@pytest.mark.parametrize("words, call", REFUSALS)
def test_refusals(words, call):
    with pytest.raises((ValueError, NotImplementedError), match=words):
        call()


def test_models():
    """Training is refused after `quantize`; Keras warns of other types."""
    model, _ = trained(LAYERS["two levels"])
    with pytest.warns(UserWarning, match="no quantized weights"):
        model.quantize("float8")
    model, _ = trained(LAYERS["two levels"])
    model.quantize("int8")
    with pytest.raises(ValueError, match="quantized and cannot train"):
        model.fit(X, Y, verbose=0)


def test_a_policy():
    head = made()
    head.dtype_policy = "int8_from_float32"
    assert isinstance(head.kernel, tf_hsm.QuantizedRows)
    assert head.dtype_policy.name == "int8_from_float32"


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
