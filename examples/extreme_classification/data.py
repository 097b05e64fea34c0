"""The data set: files in a format of the Extreme Classification Repository.

Without a folder of your own, the data set is made from Debian's packages, and
kept in the user's cache. An example is a package, the features are the TF-IDF
of the name and the description, and the labels are the packages that it depends
on. All packages of one source package are in the same part, since their
descriptions are alike.
"""

import collections
import hashlib
import json
import os
import pathlib
import tempfile
import zlib

from examples.extreme_classification import packages, tf_idf

_MIN_EXAMPLES = 2  # of a label, in training
_TEST_PART = 5  # one source package in five
_VERSION = 1


def read(folder):
    """Returns the data to train on and to test with, `ExtremeData` each.

    Args:
      folder: a folder that has `train.txt` and `test.txt`, or `trn_X_Xf.txt`,
        `trn_X_Y.txt`, `tst_X_Xf.txt` and `tst_X_Y.txt`, as the repository
        calls them.

    Raises:
      OSError: a file is missing.
      ValueError: a file has another format, or the parts have other labels.
    """
    from tf_hsm.datasets import load_extreme

    folder = pathlib.Path(folder)
    if (folder / "train.txt").exists():
        parts = [load_extreme(folder / f"{n}.txt") for n in ("train", "test")]
    else:
        parts = [
            load_extreme(folder / f"{n}_X_Xf.txt", folder / f"{n}_X_Y.txt")
            for n in ("trn", "tst")
        ]
    train, test = parts
    if (train.num_features, train.num_labels) != (
        test.num_features,
        test.num_labels,
    ):
        raise ValueError(
            f"{folder}: the training data has {train.num_features} features "
            f"and {train.num_labels} labels, but the test data has "
            f"{test.num_features} and {test.num_labels}"
        )
    return train, test


def label_names(folder, num_labels):
    """Returns the name of each label: a line of `labels.txt`, or a number."""
    path = pathlib.Path(folder, "labels.txt")
    if not path.exists():
        return [str(label) for label in range(num_labels)]
    return path.read_text().splitlines()


def debian_folder(lists=packages.LISTS, root=None):
    """Returns a folder with the data set of Debian's packages.

    Args:
      lists: the folder of apt's indexes.
      root: the folder of caches; None: the user's.

    Raises:
      OSError: an index is missing.
    """
    files = [
        (path.name, path.stat().st_size, path.stat().st_mtime_ns)
        for paths in packages.index_files(lists)
        for path in paths
    ]
    key = hashlib.sha256(json.dumps([_VERSION, files]).encode()).hexdigest()
    cache = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    root = pathlib.Path(root or pathlib.Path(cache, "tf_hsm", "corpora"))
    folder = root / f"debian-packages-{key[:16]}"
    if not folder.is_dir():
        root.mkdir(parents=True, exist_ok=True)
        # The folder gets its name once all files are written.
        with tempfile.TemporaryDirectory(dir=root) as unfinished:
            whole = pathlib.Path(unfinished, "data")
            whole.mkdir()
            write(packages.read(lists), whole)
            whole.rename(folder)
    return folder


def write(found, folder):
    """Writes `train.txt`, `test.txt` and `labels.txt`.

    Args:
      found: a list of Packages.
      folder: a folder that exists.
    """
    parts = {"train": [], "test": []}
    for package in found:
        part = zlib.crc32(package.source.encode()) % _TEST_PART
        words = tf_idf.word_counts(package.text)
        parts["train" if part else "test"].append((words, package.dependencies))
    frequency = collections.Counter(
        label for _, labels in parts["train"] for label in labels
    )
    names = [name for name, n in frequency.most_common() if n >= _MIN_EXAMPLES]
    ids = {name: i for i, name in enumerate(names)}
    weights = tf_idf.TfIdf([words for words, _ in parts["train"]])
    for part, examples in parts.items():
        lines = []
        for words, dependencies in examples:
            labels = sorted(ids[d] for d in dependencies if d in ids)
            if not labels:
                continue
            features = zip(*weights.features(words), strict=True)
            lines.append(
                ",".join(map(str, labels))
                + "".join(f" {i}:{value:.5g}" for i, value in features)
            )
        header = f"{len(lines)} {len(weights.words)} {len(names)}"
        text = "\n".join([header, *lines, ""])
        pathlib.Path(folder, f"{part}.txt").write_text(text)
    pathlib.Path(folder, "labels.txt").write_text(
        "".join(f"{name}{os.linesep}" for name in names)
    )
