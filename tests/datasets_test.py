"""The text format of extreme classification."""

import numpy as np
import pytest

from tf_hsm.datasets import load_extreme

TEXT = """3 6 5
4,0 1:0.5 5:-2e-1
 2:3
2
"""


@pytest.fixture
def written(tmp_path):
    def write(text):
        path = tmp_path / "data.txt"
        path.write_text(text)
        return path

    return write


def test_examples(written):
    """With labels and features, without the ones, and without the others."""
    data = load_extreme(written(TEXT))
    assert len(data) == 3
    assert (data.num_features, data.num_labels) == (6, 5)
    np.testing.assert_array_equal(data.labels(), [[4, 0], [-1, -1], [2, -1]])
    dense = np.zeros([3, 6], "f4")
    dense[0, 1], dense[0, 5], dense[1, 2] = 0.5, -0.2, 3
    np.testing.assert_array_equal(data.dense_inputs(), dense)
    ids, values = data.padded_features()
    np.testing.assert_array_equal(ids, [[1, 5], [2, 0], [0, 0]])
    np.testing.assert_array_equal(
        values, np.array([[0.5, -0.2], [3, 0], [0, 0]], "f4")
    )


def test_without_first_line(written):
    """The sizes are what occurs; ends of lines may be those of Windows."""
    data = load_extreme(written(TEXT.partition("\n")[2].replace("\n", "\r\n")))
    assert (len(data), data.num_features, data.num_labels) == (3, 6, 5)
    np.testing.assert_array_equal(data.labels()[:, 0], [4, -1, 2])


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
        ("1 1:1\n\n", "line 2 is empty"),
    ],
)
def test_bad_lines(written, text, message):
    with pytest.raises(ValueError, match=message):
        load_extreme(written(text))
