"""The text formats of extreme classification."""

import gzip

import numpy as np
import pytest

from tf_hsm.datasets import load_extreme, load_sparse

TEXT = """3 6 5
4,0 1:0.5 5:-2e-1
 2:3
2
"""


FEATURES = "3 6\n1:0.5 5:-2e-1\n2:3\n\n"
LABELS = "3 5\n4:1.00000 0:1\n\n2:1\n"


DENSE = np.zeros([3, 6], "f4")
DENSE[0, 1], DENSE[0, 5], DENSE[1, 2] = 0.5, -0.2, 3


def assert_is_example(data):
    assert (len(data), data.num_features, data.num_labels) == (3, 6, 5)
    np.testing.assert_array_equal(data.labels(), [[4, 0], [-1, -1], [2, -1]])
    np.testing.assert_array_equal(data.dense_inputs(), DENSE)
    ids, values = data.padded_features()
    np.testing.assert_array_equal(ids, [[1, 5], [2, 0], [0, 0]])
    expected = [[0.5, -0.2], [3, 0], [0, 0]]
    np.testing.assert_array_equal(values, np.array(expected, "f4"))


@pytest.fixture
def written(tmp_path):
    def write(text, name="data.txt"):
        path = tmp_path / name
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return path

    return write


def test_examples(written):
    """With labels and features, without the ones, and without the others."""
    assert_is_example(load_extreme(written(TEXT)))


def test_empty(written):
    data = load_extreme(written(""))
    assert (len(data), data.num_features, data.num_labels) == (0, 0, 0)
    assert data.labels().shape == data.dense_inputs().shape == (0, 0)


def test_random_round_trip(written):
    """What is written by hand comes back."""
    rng = np.random.default_rng(0)
    labels = [rng.choice(50, rng.integers(4), False) for _ in range(30)]
    features = [rng.choice(40, rng.integers(6), False) for _ in range(30)]
    dense = np.zeros([30, 40], "f4")
    lines = ["30 40 50"]
    for row, (its, ids) in enumerate(zip(labels, features, strict=True)):
        dense[row, ids] = rng.normal(size=ids.size)
        pairs = [f"{i}:{float(dense[row, i])!r}" for i in ids]
        lines.append(" ".join([",".join(map(str, its)), *pairs]))
    data = load_extreme(written("\n".join(lines) + "\n"))
    np.testing.assert_array_equal(data.dense_inputs(), dense)
    for found, its in zip(data.labels(), labels, strict=True):
        assert found[found >= 0].tolist() == its.tolist()


@pytest.mark.parametrize(
    "text, message",
    [
        ("4 6 5\n4 1:2\n", "says 4 examples, but there are 1"),
        ("1 6 5\n5 1:2\n", "line 2 has the label 5; labels are 0 to 4"),
        ("1 6 5\n4 6:2\n", "line 2 has the feature 6; features are 0 to 5"),
        ("0 0:1\n1 -3:2\n", "line 2 has the feature -3"),
        ("1 6 5\n4 3\n", "line 2 is not of the form"),
        ("1 6 5\n4; 3:1\n", "line 2 is not of the form.*'4;'"),
        ("1 6 5\n1 3:x\n", "line 2 is not of the form.*'x'"),
        ("3:1 4:1\n", "line 1 begins with the feature '3:1'"),
        ("1 6 5\n1 3:nan\n", "line 2 is not of the form.*'nan'"),
        ("1 6 5\n1 3:1e39\n", "line 2 is not of the form.*'1e39'"),
        ("1 6 5\n1 3:1_0\n", "line 2 is not of the form.*'1_0'"),
        ("1 6 5\n1_0 3:1\n", "line 2 is not of the form.*'1_0'"),
        ("1 6 5\n1 ²:1\n", "line 2 is not of the form.*'²'"),
        ("1 6 5\n1 3:1 3:2\n", "line 2 is not of the form.*twice"),
        (f"{10**19} 1:1\n", f"line 1 is not of the form.*'{10**19}'"),
        (f"1 {10**19}:1\n", f"line 1 is not of the form.*'{10**19}'"),
        ("² 1 1\n", "line 1 is not of the form"),
        ("1 1:1\n\n1 1:1\n", "line 2 is empty"),
        ("1 2 3\n1 1:1\n\n1 1:1\n", "says 1 examples, but there are 3"),
        (
            "2 6 5\n1,5 1:1\n2 2:1\n",
            r"line 2 has the label 5; labels are 0 to 4; no line has the label "
            "0, so that the file seems to count from 1: subtract 1",
        ),
        ("1 6 5\n0 6:1\n", "features are 0 to 5; .* seems to count from 1"),
        ("1 6 5\n0 0:1 6:1\n", "features are 0 to 5$"),
        ("1 6 5\n0 7:1\n", "features are 0 to 5$"),
        ("2 3\n0:1 2:1\n1:1\n", "two files, since its first line has two"),
        (b"1 6 5\n\xff 1:2\n", r"data\.txt, line 2 is not a text in UTF-8"),
        (b"PK\3\4", r"data\.txt is a zip or .npz file"),
        (gzip.compress(TEXT.encode())[:-9], r"data\.txt is .*gzip and damaged"),
        (b"\x1f\x8bx", r"data\.txt is compressed by gzip and damaged"),
        (gzip.compress(b"1 1:x"), r"data\.txt, line 1 is not of the form"),
    ],
)
def test_bad_lines(written, text, message):
    with pytest.raises(ValueError, match=message):
        load_extreme(written(text))


@pytest.mark.parametrize("end", ["", "\n", "\r\n\r\n", "\n\n\n"])
@pytest.mark.parametrize("begin", ["", "\ufeff"])
@pytest.mark.parametrize("is_packed", [False, True])
def test_begin_end_and_gzip(written, begin, end, is_packed):
    """Byte-order marks, ends of lines and empty last lines are no data."""

    def write(name, text):
        data = (begin + text + end).encode()
        return written(gzip.compress(data) if is_packed else data, name)

    assert_is_example(load_extreme(write("train.txt", TEXT)))
    without_sizes = load_extreme(write("a", TEXT.partition("\n")[2]))
    assert_is_example(without_sizes)
    windows = load_extreme(write("b", TEXT.replace("\n", "\r\n")))
    assert_is_example(windows)
    features, labels = write("x", FEATURES), write("y", LABELS)
    assert_is_example(load_extreme(features, labels=labels))
    assert_is_example(load_extreme(str(features), str(labels)))


def test_empty_lines_are_examples_where_the_first_line_says_so(written):
    data = load_extreme(written("4 6 5\n\n1 1:1\n\n\n\n"))
    np.testing.assert_array_equal(data.labels(), [[-1], [1], [-1], [-1]])


def test_one_matrix(written):
    """The features of labels, say."""
    rows = load_sparse(written(FEATURES))
    assert (len(rows), rows.num_columns) == (3, 6)
    np.testing.assert_array_equal(rows.dense(), DENSE)
    ids, values = rows.padded()
    np.testing.assert_array_equal(ids, [[1, 5], [2, 0], [0, 0]])
    np.testing.assert_array_equal(values[0], np.array([0.5, -0.2], "f4"))


@pytest.mark.parametrize(
    "features, labels, message",
    [
        (TEXT, LABELS, "x.txt has features and labels in one file"),
        (FEATURES, TEXT, "y.txt has features and labels in one file"),
        ("1:2\n", LABELS, "x.txt, line 1 is '1:2'; it must have two numbers"),
        ("", LABELS, "x.txt, line 1 is ''; it must have two numbers"),
        ("3 6\n1:2\n", LABELS, "x.txt: the first line says 3 rows.* are 1"),
        ("1 6\n1:2\n3:1\n", LABELS, "x.txt, line 3: .* 1 rows, but .* more"),
        ("1 6\n1:2\n", LABELS, "x.txt has 1 examples, but .*y.txt has 3"),
        (FEATURES, "3 5\n\n1:2\n\n", "y.txt, line 3 has the label 1 with.* 2"),
        (FEATURES, "3 5\n\n1:0\n\n", "y.txt, line 3 has the label 1 with.* 0"),
        (FEATURES, "3 5\n\n1\n\n", "y.txt, line 3 is not of the form 'label:v"),
        (FEATURES, "3 5\n1:1\n5:1\n\n", "line 3 has the label 5; .* from 1"),
        ("3 6\n1:1\n6:1\n\n", LABELS, "line 3 has the feature 6; .* from 1"),
        ("3 6\n1:1\n2:1 2:1\n\n", LABELS, "line 3 is not.* feature stands"),
    ],
)
def test_bad_pairs_of_files(written, features, labels, message):
    paths = written(features, "x.txt"), written(labels, "y.txt")
    with pytest.raises(ValueError, match=message):
        load_extreme(*paths)
