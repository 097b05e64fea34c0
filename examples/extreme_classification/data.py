"""The data set: files in a format of the Extreme Classification Repository.

Without files of your own, the data set is made from Debian's packages. An
example is a package, the features are the TF-IDF of the name and the
description, and the labels are the packages that it depends on. All packages of
one source package are in the same part, since their descriptions are alike.

A word that occurs n times in a text, and in d of E training texts, has the
weight (1 + ln n) ln(E / d). The weights of a text have together the length 1.
"""

import collections
import math
import pathlib
import re
import zlib

from tf_hsm.datasets import load_extreme

_MIN_EXAMPLES = 2  # of a label or a word, in training
_TEST_PART = 5  # one source package in five
_WORD = re.compile("[a-z0-9+]{2,}")


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
    folder = pathlib.Path(folder)
    if (folder / "train.txt").exists():
        parts = [load_extreme(folder / f"{n}.txt") for n in ("train", "test")]
    else:
        parts = [
            load_extreme(folder / f"{n}_X_Xf.txt", folder / f"{n}_X_Y.txt")
            for n in ("trn", "tst")
        ]
    train, test = ((x.num_features, x.num_labels) for x in parts)
    if train != test:
        raise ValueError(
            f"{folder}: the training data has other numbers of features and "
            f"labels, {train}, than the test data, {test}"
        )
    return parts


def label_names(folder, num_labels):
    """Returns the name of each label: a line of `labels.txt`, or a number."""
    path = pathlib.Path(folder, "labels.txt")
    if not path.exists():
        return [str(label) for label in range(num_labels)]
    return path.read_text().splitlines()


def write(packages, folder):
    """Makes a folder of `train.txt`, `test.txt` and `labels.txt`.

    Args:
      packages: a list of `packages.Package`.
      folder: its path. It gets its name once all files are written.
    """
    parts = {"train": [], "test": []}
    for package in packages:
        part = zlib.crc32(package.source.encode()) % _TEST_PART
        words = collections.Counter(_WORD.findall(package.text.lower()))
        parts["train" if part else "test"].append((words, package.dependencies))
    texts = len(parts["train"])
    words, labels = (
        _frequent(entry[i] for entry in parts["train"]) for i in (0, 1)
    )
    unfinished = pathlib.Path(f"{folder}.unfinished")
    unfinished.mkdir(parents=True, exist_ok=True)
    for part, examples in parts.items():
        lines = []
        for counts, dependencies in examples:
            ids = sorted(labels[d][0] for d in dependencies if d in labels)
            if ids:
                features = _tf_idf(counts, words, texts)
                lines.append(f"{','.join(map(str, ids))}{features}")
        header = f"{len(lines)} {len(words)} {len(labels)}"
        text = "\n".join([header, *lines, ""])
        (unfinished / f"{part}.txt").write_text(text)
    (unfinished / "labels.txt").write_text("\n".join([*labels, ""]))
    unfinished.rename(folder)


def _frequent(lists):
    """Numbers what is in several lists, the most frequent first.

    Returns:
      A dict from a name to its number and to how many lists have it.
    """
    frequency = collections.Counter(name for names in lists for name in names)
    found = [x for x in frequency.most_common() if x[1] >= _MIN_EXAMPLES]
    return {name: (i, count) for i, (name, count) in enumerate(found)}


def _tf_idf(counts, words, texts):
    """Returns the features of a text, as the files have them."""
    weights = {
        words[word][0]: (1 + math.log(n)) * math.log(texts / words[word][1])
        for word, n in counts.items()
        if word in words
    }
    length = math.hypot(*weights.values()) or 1
    features = sorted(weights.items())
    return "".join(f" {i}:{value / length:.5g}" for i, value in features)
