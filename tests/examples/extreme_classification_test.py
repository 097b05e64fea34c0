"""The example of extreme classification, on a few invented packages."""

import re

import keras
import numpy as np
import pytest
import tensorflow as tf

from examples.common import program
from examples.extreme_classification import (
    bags,
    data,
    packages,
    thresholds,
    train,
)

_PACKAGES = """Package: libfoo1
Source: foo (1.2)
Description: a library
Description-md5: aa
Depends: libc6 (>= 2.34), zlib1g:any | zlib-ng, foo-data, libc6 (<< 3)
Pre-Depends: dpkg

Package: foo-data
Source: foo
Description: data
Description-md5: bb

Package: bar
Description-md5: cc
Depends: libfoo1
"""
_TRANSLATION = """Package: libfoo1
Description-md5: aa
Description-en: a library
 It does what a library does.

Package: foo-data
Description-md5: bb
Description-en: data
"""


@pytest.fixture
def lists(tmp_path):
    folder = tmp_path / "lists"
    folder.mkdir()
    (folder / "debian_main_binary-amd64_Packages").write_text(_PACKAGES)
    (folder / "debian_main_i18n_Translation-en").write_text(_TRANSLATION)
    return folder


def invented(count, seed=0):
    """Packages whose dependencies are the libraries that the text names."""
    rng = np.random.default_rng(seed)
    result = []
    for i in range(count):
        chosen = sorted(set(rng.integers(0, 12, 2)))
        text = " ".join(f"uses{c} word{rng.integers(20)}" for c in chosen)
        dependencies = [f"lib{c:02d}" for c in chosen]
        result.append(
            packages.Package(f"p{i}", f"s{i}", f"p{i} {text}", dependencies)
        )
    return result


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("data")
    data.write(invented(600), folder)
    return folder


def test_packages(lists):
    """Packages without a description are none; own packages are no labels."""
    found = packages.read(lists)
    assert [p.name for p in found] == ["libfoo1", "foo-data"]
    assert found[0].source == "foo"
    assert found[0].text == ("libfoo1 a library\n It does what a library does.")
    assert found[0].dependencies == ["dpkg", "libc6", "zlib1g"]
    assert found[1].dependencies == []


def test_a_missing_index_is_named(lists):
    (lists / "debian_main_i18n_Translation-en").unlink()
    with pytest.raises(OSError, match="Languages=en update"):
        packages.read(lists)


def test_parts(folder):
    """A source package is in one part, and each label is trained."""
    examples, test = data.read(folder)
    assert len(examples) + len(test) == 600 and 60 < len(test) < 180
    assert np.bincount(examples.label_ids).min() >= 2
    names = data.label_names(folder, examples.num_labels)
    assert sorted(names) == [f"lib{c:02d}" for c in range(12)]


def test_two_files_for_each_part(folder, tmp_path):
    """The second format gives the same data."""
    for part, name in (("train", "trn"), ("test", "tst")):
        lines = (folder / f"{part}.txt").read_text().splitlines()
        examples, features, labels = lines[0].split()
        rows = [line.split(" ", 1) for line in lines[1:]]
        (tmp_path / f"{name}_X_Xf.txt").write_text(
            "\n".join([f"{examples} {features}", *(x for _, x in rows)]) + "\n"
        )
        ones = [" ".join(f"{y}:1" for y in ys.split(",")) for ys, _ in rows]
        (tmp_path / f"{name}_X_Y.txt").write_text(
            "\n".join([f"{examples} {labels}", *ones]) + "\n"
        )
    for one, other in zip(data.read(folder), data.read(tmp_path), strict=True):
        np.testing.assert_array_equal(one.label_ids, other.label_ids)
        np.testing.assert_array_equal(one.feature_values, other.feature_values)
    assert data.label_names(tmp_path, 12)[3] == "3"


def test_dropout_of_features():
    """Training leaves whole features out; the mean stays."""
    layer = bags.BagOfFeatures(4000, 3, dropout=0.25)
    ids = tf.reshape(tf.range(4000, dtype=tf.int64), [4000, 1])
    pair = [tf.RaggedTensor.from_tensor(x) for x in (ids, tf.ones([4000, 1]))]
    all_of_them = layer(pair).numpy()
    some = layer(pair, training=True).numpy()
    is_out = (some == 0).all(1)
    assert is_out.mean() == pytest.approx(0.25, abs=0.04)
    np.testing.assert_allclose(
        some[~is_out], all_of_them[~is_out] / 0.75, rtol=1e-5
    )


def test_best_threshold(monkeypatch):
    """Trying each threshold finds none that is better."""
    rng = np.random.default_rng(0)
    labels = np.array([[0, 1, -1], [2, -1, -1], [3, 4, 5], [6, -1, -1]])
    found = np.stack([rng.permutation(8)[:5] for _ in range(4)])
    found[1, 3:] = -1
    probs = np.where(found < 0, 0, -np.sort(-rng.random(found.shape)))
    monkeypatch.setattr(
        thresholds, "best_labels", lambda *arguments: (probs, found)
    )

    def f1(threshold):
        chosen = (probs >= threshold) & (found >= 0)
        hits = sum(found[i, j] in labels[i] for i, j in np.argwhere(chosen))
        return 2 * hits / (chosen.sum() + 7)

    best = thresholds.best(None, None, labels)
    assert f1(best) == max(f1(p) for p in probs[found >= 0])


def test_train(folder, capsys):
    """It learns, and every line is there."""
    arguments = [f"--data={folder}", "--epochs=80", "--width=32"]
    program.run(train.main, train.flags, ["train", *arguments, "--samples=2"])
    output = capsys.readouterr().out
    figures = dict(re.findall(r"^  (\w+_at_\d) +(\S+)$", output, re.M))
    assert float(figures["precision_at_1"]) > 0.9
    assert float(figures["psp_at_5"]) > 0.8
    assert len(figures) == 8
    assert "From the probability 0.50 on: precision" in output
    assert output.count("Example ") == 2 and re.search(r"\+ .*% lib", output)


def test_saved(folder, tmp_path):
    """A trained model can be saved and loaded."""
    examples, test = data.read(folder)
    model = train.train(examples, train.Settings(epochs=1, width=16))
    model.save(tmp_path / "model.keras")
    again = keras.models.load_model(tmp_path / "model.keras")
    found = thresholds.best_labels(model, bags.of(test), 3)
    for one, other in zip(
        found, thresholds.best_labels(again, bags.of(test), 3), strict=True
    ):
        np.testing.assert_array_equal(one, other)
