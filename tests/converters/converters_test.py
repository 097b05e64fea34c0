"""Converted models against the libraries they come from.

The golden files were made with those libraries by
tests/golden/converters/make.py. Where a library is installed, models are also
trained anew.
"""

import pickle
import struct
import types

import keras
import numpy as np
import pytest

from tests.support.converters_reference import (
    GOLDEN,
    Words,
    check_fasttext,
    check_gensim,
    convert,
    fasttext_bytes,
    fasttext_outputs,
    fasttext_paths,
    gensim_paths,
    golden_gensim,
    log_probs,
    walk,
)
from tf_hsm import converters
from tf_hsm.converters import _fasttext_inputs
from tf_hsm.layers import HierarchicalSoftmax


def test_a_supervised_model_of_fasttext():
    golden = np.load(GOLDEN / "fasttext.npz")
    path = GOLDEN / "supervised.bin"
    model = converters.from_fasttext(path)
    assert model.names == golden["labels"].tolist()
    assert len(set(golden["label_counts"])) < len(model.names)
    np.testing.assert_allclose(
        model.inputs, golden["supervised_vectors"], atol=1e-6
    )
    lines = [model.line_vector(line) for line in golden["lines"].tolist()]
    np.testing.assert_allclose(lines, golden["line_vectors"], atol=1e-6)
    outputs = fasttext_outputs(path.read_bytes(), len(model.names), 5)
    check_fasttext(
        model,
        outputs,
        golden["label_counts"],
        np.stack(lines),
        golden["line_probs"],
    )


def test_a_skip_gram_model_of_fasttext():
    golden = np.load(GOLDEN / "fasttext.npz")
    path = GOLDEN / "skip_gram.bin"
    model = converters.from_fasttext(str(path))
    assert model.names == model.input_names == golden["words"].tolist()
    assert model.line_vector is None
    np.testing.assert_allclose(
        model.inputs, golden["skip_gram_vectors"], atol=1e-6
    )
    outputs = fasttext_outputs(path.read_bytes(), len(model.names), 4)
    check_fasttext(
        model,
        outputs,
        golden["word_counts"],
        golden["skip_gram_inputs"],
        golden["skip_gram_probs"],
    )


@pytest.mark.parametrize("block", [1, 7])
def test_subwords_in_small_blocks(monkeypatch, block):
    monkeypatch.setattr(_fasttext_inputs, "_BLOCK", block)
    golden = np.load(GOLDEN / "fasttext.npz")
    for name in ("supervised", "skip_gram"):
        model = converters.from_fasttext(GOLDEN / f"{name}.bin")
        np.testing.assert_allclose(
            model.inputs, golden[f"{name}_vectors"], atol=1e-6
        )


@pytest.mark.parametrize("pinned", [True, False])
@pytest.mark.parametrize("supervised", [True, False])
@pytest.mark.parametrize("seed", range(12))
def test_trees_of_fasttext(tmp_path, seed, supervised, pinned):
    rng = np.random.default_rng(seed)
    size = (1, 2, 3, 5, 17, 64)[seed % 6]
    # Few different counts, or counts as of words, zeros among both.
    counts = rng.integers(0, 4, size) if seed < 6 else rng.zipf(1.3, size) - 1
    counts = np.sort(np.minimum(counts, 10**14))[::-1]
    outputs = rng.normal(size=[size, 3]).astype(np.float32)
    model = convert(
        tmp_path,
        fasttext_bytes(counts.tolist(), outputs, supervised=supervised),
        pinned=pinned,
    )
    assert model.tree.pinned == (pinned and size > 1)
    assert model.tree.num_rows == max(2 * size - 2, 1)
    assert len(model.weights) == model.tree.num_weight_rows
    inputs = rng.normal(size=[4, 3]).astype(np.float32)
    np.testing.assert_allclose(
        log_probs(model, inputs),
        walk(fasttext_paths(counts.tolist()), outputs, inputs),
        rtol=1e-5,
        atol=1e-5,
    )


def test_counts_in_any_order_make_the_tree_of_the_rules(tmp_path):
    # Leaves 2 and 1, then leaf 0 against their sum.
    outputs = np.array([[1.0], [2.0], [0.0]], np.float32)
    model = convert(tmp_path, fasttext_bytes([1, 5, 3], outputs))
    paths = [
        (np.array([1]), np.array([-1])),
        (np.array([0, 1]), np.array([1, 1])),
        (np.array([0, 1]), np.array([-1, 1])),
    ]
    x = np.array([[0.5]], np.float32)
    np.testing.assert_allclose(
        log_probs(model, x), walk(paths, outputs, x), rtol=1e-6
    )


def test_a_chain_of_classes_that_never_occur(tmp_path):
    size = 3_000
    model = convert(tmp_path, fasttext_bytes([0] * size, np.ones([size, 1])))
    assert model.tree.depth == size - 1


def test_version_11_has_no_subwords_in_supervised_models(tmp_path):
    inputs = np.arange(12, dtype=np.float32).reshape(6, 2)
    changes = {"maxn": 3, "bucket": 4, "inputs": inputs}
    for version in (11, 12):
        model = convert(
            tmp_path,
            fasttext_bytes([1], np.ones([1, 2]), version=version, **changes),
        )
        is_row = np.allclose(model.inputs[1], inputs[1])
        assert is_row == (version == 11)
        np.testing.assert_array_equal(model.inputs[0], inputs[0])


def test_names_that_are_not_utf8(tmp_path):
    words = (b"\xff\xfe", b"\x80", b"caf\xc3\xa9", b"")
    model = convert(
        tmp_path,
        fasttext_bytes([1], np.ones([1, 2]), words=words, maxn=4, bucket=7),
    )
    encoded = [n.encode("utf-8", "surrogateescape") for n in model.input_names]
    assert tuple(encoded) == words


def test_a_model_without_words(tmp_path):
    model = convert(tmp_path, fasttext_bytes([2, 1], np.ones([2, 3]), words=()))
    assert model.inputs.shape == (0, 3) and model.input_names == []
    np.testing.assert_array_equal(model.line_vector("a b"), np.zeros(3))


def test_lines_are_checked():
    vector = converters.from_fasttext(GOLDEN / "supervised.bin").line_vector
    with pytest.raises(ValueError, match="end of line at 3"):
        vector("sun\nmoon")
    with pytest.raises(TypeError, match="str, not bytes"):
        vector(b"sun")


def test_a_model_can_be_pickled():
    model = converters.from_fasttext(GOLDEN / "supervised.bin")
    copy = pickle.loads(pickle.dumps(model))
    assert copy.tree == model.tree
    np.testing.assert_array_equal(
        copy.line_vector("sun 東京"), model.line_vector("sun 東京")
    )
    assert len(repr(model)) < 200


@pytest.mark.parametrize("pinned", [True, False])
def test_a_model_of_gensim(pinned):
    check_gensim(*golden_gensim(), pinned=pinned)


def of_paths(tree, paths, vectors):
    """The vector of each group, `[G, D]`, by the paths of the classes."""
    found = np.full([tree.num_groups, vectors.shape[1]], np.nan, vectors.dtype)
    for c, (nodes, signs) in enumerate(paths):
        rows = tree.path(c)
        # The first row of a group has the logit of the vector as it is.
        np.testing.assert_array_equal(rows % 2 == 0, signs > 0)
        found[rows // 2] = vectors[nodes]
    return found


def test_pinned_weights_are_the_bits_of_the_model(tmp_path):
    model, _ = golden_gensim()
    converted = converters.from_gensim(model)
    assert converted.tree.pinned
    wanted = of_paths(converted.tree, gensim_paths(model), model.syn1)
    assert converted.weights.tobytes() == wanted.tobytes()
    assert sorted(map(bytes, converted.weights)) == sorted(
        map(bytes, model.syn1[: len(converted.weights)])
    )

    golden = np.load(GOLDEN / "fasttext.npz")
    path = GOLDEN / "supervised.bin"
    converted = converters.from_fasttext(path)
    outputs = fasttext_outputs(path.read_bytes(), len(converted.names), 5)
    paths = [
        (nodes[::-1], signs[::-1])  # From the root on.
        for nodes, signs in fasttext_paths(golden["label_counts"].tolist())
    ]
    wanted = of_paths(converted.tree, paths, outputs)
    assert converted.weights.tobytes() == wanted.tobytes()

    # And stay so in a head that is saved and loaded.
    head = HierarchicalSoftmax(converted.tree, use_bias=False)
    keras_model = keras.Sequential([keras.Input([5]), head])
    head.kernel.assign(converted.weights)
    keras_model.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras").layers[-1]
    assert loaded.tree == converted.tree
    assert loaded.kernel.numpy().tobytes() == wanted.tobytes()


@pytest.mark.parametrize("name", ["fastText", "gensim"])
def test_weights_of_all_rows(name):
    if name == "gensim":
        pinned, whole = (
            converters.from_gensim(golden_gensim()[0], pinned=pinned)
            for pinned in (True, False)
        )
    else:
        pinned, whole = (
            converters.from_fasttext(GOLDEN / "supervised.bin", pinned=pinned)
            for pinned in (True, False)
        )
    assert pinned.tree.pinned and not whole.tree.pinned
    assert whole.weights.nbytes == 2 * pinned.weights.nbytes
    # The vectors of fastText are those of the second rows.
    side = int(name == "fastText")
    zeros = whole.weights[1 - side :: 2]
    np.testing.assert_array_equal(zeros, np.zeros_like(zeros))
    inputs = whole.inputs[:4]
    np.testing.assert_allclose(
        log_probs(pinned, inputs), log_probs(whole, inputs), rtol=1e-5
    )
    if name == "gensim":
        assert pinned.tree.expand() == whole.tree
        np.testing.assert_array_equal(
            pinned.tree.expand_rows(pinned.weights), whole.weights
        )


def test_one_word_of_gensim():
    wv = Words(["a"], np.ones([1, 3], np.float32), [[]], [[]])
    model = converters.from_gensim(
        types.SimpleNamespace(hs=1, syn1=np.ones([1, 3], np.float32), wv=wv)
    )
    np.testing.assert_array_equal(log_probs(model, model.inputs), [[0.0]])


def sentences(seed):
    """Sentences in which a word tells much about its neighbours."""
    rng = np.random.default_rng(seed)
    starts = rng.geometric(0.08, 400)
    return [
        [f"wörd{s + step}" for step in rng.geometric(0.4, 7)] for s in starts
    ]


@pytest.mark.parametrize("sg", [0, 1])
def test_word2vec_of_gensim(sg):
    word2vec = pytest.importorskip("gensim.models.word2vec")
    model = word2vec.Word2Vec(
        sentences(sg),
        vector_size=9,
        sg=sg,
        hs=1,
        negative=0,
        min_count=2,
        alpha=0.05,
        epochs=10,
        workers=1,
    )
    words = model.wv.index_to_key[:15]
    scores = model.score(
        [[first, second] for first in words for second in words]
    )
    check_gensim(model, scores.reshape(len(words), len(words)))


@pytest.mark.parametrize("name", ["FastText", "Doc2Vec"])
def test_other_classes_of_gensim(name):
    models = pytest.importorskip("gensim.models")
    options = {"vector_size": 5, "hs": 1, "negative": 0, "min_count": 1}
    texts = sentences(2)
    if name == "Doc2Vec":
        texts = [
            models.doc2vec.TaggedDocument(text, [number])
            for number, text in enumerate(texts)
        ]
    else:
        options["bucket"] = 100
    model = getattr(models, name)(texts, workers=1, epochs=2, **options)
    converted = converters.from_gensim(model)
    np.testing.assert_allclose(
        log_probs(converted, converted.inputs[:5]),
        walk(gensim_paths(model), model.syn1, model.wv.vectors[:5]),
        rtol=1e-5,
        atol=1e-5,
    )


def test_models_of_gensim_that_have_no_such_tree():
    models = pytest.importorskip("gensim.models")
    model = models.Word2Vec(sentences(3), vector_size=5, min_count=1)
    with pytest.raises(ValueError, match="hs=1"):
        converters.from_gensim(model)
    with pytest.raises(TypeError, match="not KeyedVectors"):
        converters.from_gensim(model.wv)


def train_fasttext(fasttext, tmp_path, kind, **options):
    """Trains and saves a model; returns it and its file."""
    text = tmp_path / "text"
    text.write_text(
        "".join(
            f"__label__{len(words[0]) + int(words[0][4:]) // 2} "
            + " ".join(words)
            + "\n"
            for words in sentences(4)
        ),
        encoding="utf-8",
    )
    model = getattr(fasttext, f"train_{kind}")(
        str(text),
        loss="hs",
        dim=7,
        epoch=8,
        thread=1,
        verbose=0,
        minCount=1,
        **options,
    )
    path = tmp_path / "trained.bin"
    model.save_model(str(path))
    return model, path


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"wordNgrams": 3, "bucket": 999},
        {"minn": 0, "maxn": 2, "bucket": 50},
        {"minn": 2, "maxn": 5, "bucket": 500, "wordNgrams": 2},
    ],
)
@pytest.mark.parametrize("version", [12, 11])
def test_supervised_models_of_fasttext(tmp_path, options, version):
    fasttext = pytest.importorskip("fasttext")
    model, path = train_fasttext(
        fasttext, tmp_path, "supervised", lr=0.5, **options
    )
    if version == 11:
        data = bytearray(path.read_bytes())
        struct.pack_into("<i", data, 4, version)
        path.write_bytes(data)
        model = fasttext.load_model(str(path))
    converted = converters.from_fasttext(path)
    labels, counts = model.get_labels(include_freq=True)
    assert converted.names == labels
    assert converted.input_names == model.get_words()
    lines = [" ".join(words) for words in sentences(5)[:20]]
    lines += ["", "new wörds", "a </s> b", " \tc\vd\fe\rf\0g", "__label__ x"]
    vectors = np.stack([converted.line_vector(line) for line in lines])
    np.testing.assert_allclose(
        vectors, [model.get_sentence_vector(x) for x in lines], atol=1e-5
    )
    np.testing.assert_allclose(
        converted.inputs,
        [model.get_word_vector(word) for word in model.get_words()],
        atol=1e-5,
    )
    probs = np.full([len(lines), len(labels)], np.nan)
    for number, line in enumerate(lines):
        # `predict` fails with NumPy 2, and for a list repeats one number.
        for prob, label in model.f.predict(line + "\n", -1, 0.0, "strict"):
            probs[number, labels.index(label)] = prob
    outputs = model.get_output_matrix()
    check_fasttext(converted, outputs, counts, vectors, probs)


@pytest.mark.parametrize("kind", ["skipgram", "cbow"])
@pytest.mark.parametrize("maxn", [0, 4])
def test_unsupervised_models_of_fasttext(tmp_path, kind, maxn):
    fasttext = pytest.importorskip("fasttext")
    model, path = train_fasttext(
        fasttext,
        tmp_path,
        "unsupervised",
        model=kind,
        minn=2,
        maxn=maxn,
        bucket=200,
    )
    converted = converters.from_fasttext(path)
    words, counts = model.get_words(include_freq=True)
    assert converted.names == words
    vectors = np.stack([model.get_word_vector(word) for word in words])
    np.testing.assert_allclose(converted.inputs, vectors, atol=1e-5)
    np.testing.assert_allclose(
        log_probs(converted, vectors[:9]),
        walk(
            fasttext_paths(counts.tolist()),
            model.get_output_matrix(),
            vectors[:9],
        ),
        rtol=1e-5,
        atol=1e-5,
    )


def test_other_losses_of_fasttext(tmp_path):
    fasttext = pytest.importorskip("fasttext")
    text = tmp_path / "text"
    text.write_text("__label__a b\n__label__b c\n")
    for loss in ("ns", "softmax", "ova"):
        model = fasttext.train_supervised(
            str(text), loss=loss, dim=2, verbose=0, minCount=1
        )
        path = tmp_path / f"{loss}.bin"
        model.save_model(str(path))
        with pytest.raises(ValueError, match=f"its loss is {loss}"):
            converters.from_fasttext(path)
