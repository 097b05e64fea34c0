"""Converted models against fastText, which trained them.

The golden files were made with that library by
tests/golden/converters/make.py.
"""

import pickle

import numpy as np
import pytest

from tests.support.converters_reference import (
    GOLDEN,
    check_fasttext,
    convert,
    fasttext_bytes,
    fasttext_outputs,
    fasttext_paths,
    log_probs,
    walk,
)
from tf_hsm import converters
from tf_hsm.converters import _fasttext_inputs


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
