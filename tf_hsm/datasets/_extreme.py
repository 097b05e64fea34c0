"""Examples with several labels each, from one text file or from two."""

import dataclasses

import numpy as np

from tf_hsm.datasets import _lines, _sparse


@dataclasses.dataclass(frozen=True, eq=False)
class ExtremeData:
    """Examples with sparse features and several labels, one after another.

    Attributes:
      num_features: how many features there are.
      num_labels: how many labels there are, N.
      label_starts: `[examples + 1]` int64; example i has
        `label_ids[label_starts[i] : label_starts[i + 1]]`.
      label_ids: `[...]` int64, in [0, num_labels).
      feature_starts: `[examples + 1]` int64, the same of `feature_ids`.
      feature_ids: `[...]` int64, in [0, num_features).
      feature_values: `[...]` float32, of these features.
    """

    num_features: int
    num_labels: int
    label_starts: np.ndarray
    label_ids: np.ndarray
    feature_starts: np.ndarray
    feature_ids: np.ndarray
    feature_values: np.ndarray

    def __len__(self):
        """Returns the number of examples."""
        return self.label_starts.size - 1

    def labels(self):
        """Returns the labels of each example, and then -1: `[examples, M]`."""
        return _lines.padded(self.label_starts, self.label_ids, -1)

    def padded_features(self):
        """Returns ids `[examples, F]` int64 and values float32.

        Each example begins with its own features, and ends with the id 0 and
        the value 0.
        """
        return self._features().padded()

    def dense_inputs(self):
        """Returns `[examples, num_features]` float32; for small sets only."""
        return self._features().dense()

    def _features(self):
        return _sparse.SparseRows(
            self.num_features,
            self.feature_starts,
            self.feature_ids,
            self.feature_values,
        )


def load_extreme(path, labels=None) -> ExtremeData:
    """Reads a data set in a text format of extreme classification.

    >>> data = tf_hsm.datasets.load_extreme("train.txt")
    >>> data = tf_hsm.datasets.load_extreme("trn_X_Xf.txt", "trn_X_Y.txt")

    Args:
      path: of the file; `tf_hsm.datasets` shows the formats. It may be
        compressed by gzip.
      labels: the path of the labels, where they have a file of their own.

    Raises:
      OSError: a file cannot be read.
      ValueError: a line is not of the format; names the line and what is wrong
        with it.
    """
    if labels is None:
        return _read_one(path)
    features = _sparse.read(path, "feature")
    found = _sparse.read(labels, "label")
    if len(features) != len(found):
        raise ValueError(
            f"{path} has {len(features)} examples, but {labels} has "
            f"{len(found)}"
        )
    bad = np.flatnonzero(found.values != 1)
    if bad.size:
        row = np.searchsorted(found.starts, bad[0], "right") - 1
        raise ValueError(
            f"{labels}, line {row + 2} has the label {found.ids[bad[0]]} with "
            f"the value {found.values[bad[0]]}; the value of a label is 1"
        )
    return ExtremeData(
        num_features=features.num_columns,
        num_labels=found.num_columns,
        label_starts=found.starts,
        label_ids=found.ids,
        feature_starts=features.starts,
        feature_ids=features.ids,
        feature_values=features.values,
    )


def _read_one(path):
    """Reads features and labels from one file."""
    labels, features = (_lines.Ragged(path, x) for x in ("label", "feature"))
    values = []
    sizes = None  # examples, features, labels
    empty = []  # the numbers of the empty lines just before

    def add_empty(count):
        """Adds examples without labels and features for empty lines."""
        if count and not sizes:
            raise ValueError(
                f"{path}, line {empty[0]} is empty; an example without labels "
                "and features is a space"
            )
        for number in empty[:count]:
            labels.add(number, [])
            features.add(number, [])
        empty.clear()

    for number, line in _lines.numbered_lines(path):
        if number == 1:
            sizes = _read_sizes(path, line)
            if sizes:
                continue
        if not line:
            empty.append(number)
            continue
        add_empty(len(empty))
        its_labels, ids, its_values = _read_example(path, number, line)
        labels.add(number, its_labels)
        features.add(number, ids)
        values.extend(its_values)
    if sizes:
        # Other empty lines end the file.
        add_empty(min(max(sizes[0] - len(labels), 0), len(empty)))
        if len(labels) != sizes[0]:
            raise ValueError(
                f"{path}: the first line says {sizes[0]} examples, but there "
                f"are {len(labels)}"
            )
    _, num_features, num_labels = sizes or (None, None, None)
    feature_ids, feature_starts, num_features = features.arrays(num_features)
    label_ids, label_starts, num_labels = labels.arrays(num_labels)
    return ExtremeData(
        num_features=num_features,
        num_labels=num_labels,
        label_starts=label_starts,
        label_ids=label_ids,
        feature_starts=feature_starts,
        feature_ids=feature_ids,
        feature_values=np.array(values, np.float32),
    )


def _read_sizes(path, line):
    """Returns the three numbers of a first line; None if it is an example."""
    if _lines.whole_numbers(line, 2):
        raise ValueError(
            f"{path} is one of two files, since its first line has two "
            "numbers: features and labels have a file each. Call "
            'load_extreme("trn_X_Xf.txt", labels="trn_X_Y.txt")'
        )
    return _lines.whole_numbers(line, 3)


def _read_example(path, number, line):
    """Returns the labels, the features and their values on a line."""
    labels, _, features = line.partition(" ")
    if ":" in labels:
        raise ValueError(
            f"{path}, line {number} begins with the feature {labels!r}; labels "
            "stand first, and an example without any begins with a space"
        )
    try:
        ids = [_lines.read_id(x) for x in labels.split(",")] if labels else []
        return ids, *_lines.read_pairs(features, "feature")
    except ValueError as error:
        raise ValueError(
            f"{path}, line {number} is not of the form "
            f"'label,label feature:value feature:value': {error}"
        ) from error
