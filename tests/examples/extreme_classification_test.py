"""The example of extreme classification, on a few invented packages."""

import re

import keras
import numpy as np
import pytest

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
    folder = tmp_path_factory.mktemp("data") / "invented"
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


def test_parts(folder):
    """A source package is in one part, and each label is trained."""
    examples, test = data.read(folder)
    assert len(examples) + len(test) == 600 and 60 < len(test) < 180
    assert np.bincount(examples.label_ids).min() >= 2
    names = data.label_names(folder, examples.num_labels)
    assert sorted(names) == [f"lib{c:02d}" for c in range(12)]


def test_train(tmp_path, monkeypatch, capsys):
    """It makes the data set and learns, and every line is there."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(packages, "read", lambda lists: invented(600))
    arguments = ["--epochs=80", "--width=32"]
    program.run(train.main, train.flags, ["train", *arguments, "--samples=2"])
    output = capsys.readouterr().out
    figures = dict(re.findall(r"^  (\w+_at_\d) +(\S+)$", output, re.M))
    assert float(figures["precision_at_1"]) > 0.9
    assert float(figures["psp_at_5"]) > 0.8
    assert len(figures) == 8
    assert "From the probability 0.50 on: precision" in output
    assert output.count("Example ") == 2 and re.search(r"\+ .*% lib", output)
    # The data set is read again, and not made again.
    monkeypatch.delattr(packages, "read")
    arguments = [*arguments, "--epochs=1"]
    program.run(train.main, train.flags, ["train", *arguments])


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
