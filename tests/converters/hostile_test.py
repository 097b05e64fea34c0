"""Models that are damaged, hostile or something else."""

import os
import re
import struct
import types

import numpy as np
import pytest

from tests.support.converters_reference import (
    GOLDEN,
    Words,
    convert,
    fasttext_bytes,
    golden_gensim,
)
from tf_hsm import converters


@pytest.mark.parametrize("name", ["supervised.bin", "skip_gram.bin"])
def test_a_file_cut_short_anywhere(tmp_path, name):
    whole = (GOLDEN / name).read_bytes()
    with pytest.raises(ValueError, match="1 bytes follow"):
        convert(tmp_path, whole + b"\0")
    path = tmp_path / "model.bin"
    for size in reversed(range(len(whole))):
        os.truncate(path, size)
        with pytest.raises(ValueError, match=r"model\.bin' as a fastText"):
            converters.from_fasttext(path)


# Where the fields of a file lie.
DIM, WORD_NGRAMS, LOSS, MODEL, BUCKET = 8, 28, 32, 36, 40
SIZE, PRUNED, FIRST = 64, 84, 92


@pytest.mark.parametrize(
    ("offset", "layout", "value", "message"),
    [
        (0, "i", 793712313, "begins with 793712313"),
        (0, "8s", b"PK\3\4....", "begins with"),
        (4, "i", 10, "version is 10; it must be 11 to 12"),
        (4, "i", 13, "version is 13"),
        (4, "i", -1, "version is -1"),
        (LOSS, "i", 2, "loss is ns"),
        (LOSS, "i", 3, "loss is softmax"),
        (LOSS, "i", 5, "loss is 5"),
        (MODEL, "i", 0, "model is 0"),
        (MODEL, "i", 4, "model is 4"),
        (DIM, "i", 0, "dim is 0"),
        (DIM, "i", -5, "dim is -5"),
        (DIM, "i", 6, r"shape \[81, 5\]; it must be \[81, 6\]"),
        (WORD_NGRAMS, "i", -1, "wordNgrams is -1"),
        (BUCKET, "i", -1, "bucket is -1"),
        (BUCKET, "i", 0, "bucket is 0; with maxn 4"),
        (BUCKET, "i", 2**31 - 1, "shape"),
        (SIZE, "i", -1, "-1 entries"),
        (SIZE, "i", 2**31 - 1, "has 2147483647 entries"),
        (SIZE, "3i", (2**31 - 1, 2**31 - 14, 13), "needs 21474836470 bytes"),
        (SIZE, "3i", (34, 35, -1), "labels is -1"),
        (SIZE, "3i", (34, -1, 35), "words is -1"),
        (SIZE, "3i", (34, 34, 0), "type of entry 21 is 1; it must be 0"),
        (SIZE, "3i", (34, 20, 14), "type of entry 20 is 0; it must be 1"),
        (SIZE, "3i", (21, 21, 0), "no labels"),
        (PRUNED, "q", 0, "pruned to 0"),
        (PRUNED, "q", 2**63 - 1, "pruned to"),
        (FIRST + 5, "q", -1, "count of entry 0 is -1"),
        (FIRST + 5, "q", 10**15, "count of entry 0 is 1000000000000000"),
        (FIRST + 13, "b", 2, "type of entry 0 is 2"),
    ],
)
def test_a_field_out_of_range(tmp_path, offset, layout, value, message):
    data = bytearray((GOLDEN / "supervised.bin").read_bytes())
    values = value if isinstance(value, tuple) else (value,)
    struct.pack_into("<" + layout, data, offset, *values)
    with pytest.raises(ValueError, match=message):
        convert(tmp_path, data)


@pytest.mark.parametrize("matrix", [0, 1])
@pytest.mark.parametrize(
    "shape",
    [(0, 0), (-1, 3), (2**62, 3), (4, 2**62), (2**63 - 1, 2**63 - 1), (3, 4)],
)
def test_a_matrix_of_another_shape(tmp_path, matrix, shape):
    outputs = np.ones([4, 3], np.float32)
    data = bytearray(fasttext_bytes([4, 3, 2, 1], outputs))
    end = len(data) - (outputs.nbytes + 17) * (1 - matrix)
    offset = end - 16 - 4 * 3 * (4 if matrix else 2)
    assert struct.unpack_from("<2q", data, offset)[1] == 3
    struct.pack_into("<2q", data, offset, *shape)
    with pytest.raises(ValueError, match="matrix has the shape"):
        convert(tmp_path, data)
    data[offset - 1] = 1
    with pytest.raises(ValueError, match="quantized"):
        convert(tmp_path, data)
    data[offset - 1] = 2
    with pytest.raises(ValueError, match="flag of a quantized matrix is 2"):
        convert(tmp_path, data)


@pytest.mark.parametrize("matrix", ["input", "output"])
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_numbers_that_are_not_finite(tmp_path, matrix, value):
    matrices = {"input": np.ones([2, 3]), "output": np.ones([4, 3])}
    matrices[matrix][1, 2] = value
    data = fasttext_bytes(
        [4, 3, 2, 1], matrices["output"], inputs=matrices["input"]
    )
    message = rf"the {matrix} matrix has {value} at \[1, 2\]"
    with pytest.raises(ValueError, match=message):
        convert(tmp_path, data)


def test_a_large_size_takes_no_memory(tmp_path):
    # Sizes that fit one another: 2**31 rows of 2**31 - 1 numbers.
    huge = 2**31 - 1
    data = bytearray(fasttext_bytes([1], np.ones([1, 1]), words=[b"a"]))
    struct.pack_into("<i", data, DIM, huge)
    struct.pack_into("<i", data, BUCKET, huge)
    shape_at = len(data) - (4 + 16) - 1 - (4 + 16)
    assert struct.unpack_from("<2q", data, shape_at) == (1, 1)
    struct.pack_into("<2q", data, shape_at, 2**31, huge)
    with pytest.raises(ValueError, match=f"needs {4 * 2**31 * huge} bytes"):
        convert(tmp_path, data)


def test_a_file_without_any_class(tmp_path):
    for supervised, message in ((True, "no labels"), (False, "no words")):
        data = fasttext_bytes([], np.ones([0, 2]), supervised=supervised)
        with pytest.raises(ValueError, match=message):
            convert(tmp_path, data)


def test_a_quantized_model():
    with pytest.raises(ValueError, match=r"quantized \(\.ftz\)"):
        converters.from_fasttext(GOLDEN / "quantized.ftz")


def test_other_paths(tmp_path):
    with pytest.raises(FileNotFoundError):
        converters.from_fasttext(tmp_path / "none.bin")
    with pytest.raises(IsADirectoryError):
        converters.from_fasttext(tmp_path)
    for model in (None, 3, types.SimpleNamespace(f=None)):
        with pytest.raises(TypeError, match=f"is {type(model).__name__}"):
            converters.from_fasttext(model)


def set_to(name, value):
    return lambda model: setattr(model, name, value)


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        (set_to("hs", 0), ValueError, "hs=1"),
        (set_to("syn1", None), ValueError, "hs=1"),
        (set_to("wv", None), TypeError, "not SimpleNamespace"),
        (
            lambda model: setattr(model, "syn1", model.syn1[:-1]),
            ValueError,
            r"syn1 has the shape \[19, 6\]; .* \[20, 6\]",
        ),
        (
            lambda model: setattr(model.wv, "vectors", model.syn1[0]),
            ValueError,
            r"vectors has the shape \[6\]; it must be \[20, D\]",
        ),
        (
            lambda model: model.syn1.__setitem__((3, 1), np.inf),
            ValueError,
            r"model\.syn1 has inf at \[3, 1\]",
        ),
        (
            lambda model: model.wv.vectors.__setitem__((0, 2), np.nan),
            ValueError,
            r"model\.wv\.vectors has nan at \[0, 2\]",
        ),
        (
            lambda model: model.wv.index_to_key.clear(),
            ValueError,
            "no words",
        ),
        (
            lambda model: model.wv.attributes.pop("code"),
            ValueError,
            "no codes",
        ),
    ],
)
def test_other_models_than_those_of_gensim(change, error, message):
    model, _ = golden_gensim()
    change(model)
    with pytest.raises(error, match=message):
        converters.from_gensim(model)


@pytest.mark.parametrize(
    ("attribute", "change", "message"),
    [
        ("point", lambda point: 0, "point of shape []"),
        ("point", lambda point: point[:0], "point of shape [0]"),
        ("point", lambda point: point[1:], "must be [length]"),
        ("point", lambda point: point + 0.5, "integers, not float64"),
        ("point", lambda point: point * 0 + 19, "19; it must be 0 to 18"),
        ("point", lambda point: point * 0, "contradicts"),
        ("point", lambda point: point[::-1], "contradicts"),
        ("code", lambda code: code + 2, "it must be 0 to 1"),
        ("code", lambda code: code[:0], "code of shape [0]"),
        ("code", lambda code: 1 - code, "contradicts"),
    ],
)
def test_one_word_with_another_path(attribute, change, message):
    model, _ = golden_gensim()
    values = model.wv.attributes[attribute]
    values[4] = change(values[4])
    with pytest.raises(ValueError, match=re.escape(message)):
        converters.from_gensim(model)


@pytest.mark.parametrize(
    ("points", "codes", "message"),
    [
        # Two words share a leaf.
        ([[0], [0]], [[0], [0]], "contradicts"),
        # The first or the second word begins below the root of the others.
        ([[1], [0, 1], [0]], [[1], [0, 0], [1]], "contradicts"),
        ([[0, 1], [1], [0]], [[0, 0], [1], [1]], "word 'b' contradicts"),
        # An inner node is its own child.
        ([[0], [0, 0], [0, 1]], [[0], [1, 0], [1, 1]], "contradicts"),
        # The second child of the root is missing.
        ([[1, 0], [1, 0]], [[0, 0], [0, 1]], "0 to 0"),
        # A node is below both sides of another.
        ([[0, 1], [0, 1], [0, 1]], [[0, 0], [0, 1], [1, 1]], "contradicts"),
    ],
)
def test_small_paths_that_are_no_tree(points, codes, message):
    vectors = np.ones([len(points), 2])
    words = Words("abc"[: len(points)], vectors, points, codes)
    model = types.SimpleNamespace(hs=1, syn1=vectors, wv=words)
    with pytest.raises(ValueError, match=message):
        converters.from_gensim(model)
