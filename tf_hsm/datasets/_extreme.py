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
        """The number of examples."""
        return self.label_starts.size - 1

    def labels(self):
        """`[examples, M]` int64: each one's labels, and then -1."""
        return _lines.padded(self.label_starts, self.label_ids, -1)

    def padded_features(self):
        """Ids `[examples, F]` int64 and values `[examples, F]` float32.

        Each example begins with its own features, and ends with the id 0 and
        the value 0.
        """
        return (
            _lines.padded(self.feature_starts, self.feature_ids, 0),
            _lines.padded(self.feature_starts, self.feature_values, 0),
        )

    def dense_inputs(self):
        """`[examples, num_features]` float32: for small sets only."""
        return _lines.dense(
            self.feature_starts,
            self.feature_ids,
            self.feature_values,
            self.num_features,
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
    rows = _Rows(path)
    for number, line in _lines.numbered_lines(path):
        rows.add(number, line)
    return rows.data()


class _Rows:
    """The contents of the lines read so far."""

    def __init__(self, path):
        self._path = path
        self._sizes = None  # examples, features, labels
        self._labels = _lines.Ragged(path, "label")
        self._features = _lines.Ragged(path, "feature")
        self._values = []
        self._empty = []  # the numbers of the empty lines just before

    def add(self, number, line):
        """Reads a line."""
        if number == 1:
            self._sizes = _lines.whole_numbers(line, 3)
            if self._sizes:
                return
            if _lines.whole_numbers(line, 2):
                raise ValueError(
                    f"{self._path} is one of two files, since its first line "
                    "has two numbers: features and labels have a file each. "
                    'Call load_extreme("trn_X_Xf.txt", labels="trn_X_Y.txt")'
                )
        if not line:
            self._empty.append(number)
            return
        self._add_empty(len(self._empty))
        labels, _, features = line.partition(" ")
        if ":" in labels:
            raise ValueError(
                f"{self._path}, line {number} begins with the feature "
                f"{labels!r}; labels stand first, and an example without any "
                "begins with a space"
            )
        try:
            self._labels.add(
                number,
                map(_lines.read_id, labels.split(",")) if labels else [],
            )
            ids, values = _lines.read_pairs(features, "feature")
        except ValueError as error:
            raise ValueError(
                f"{self._path}, line {number} is not of the form "
                f"'label,label feature:value feature:value': {error}"
            ) from error
        self._features.add(number, ids)
        self._values.extend(values)

    def _add_empty(self, count):
        """Adds examples without labels and features for empty lines."""
        if count and not self._sizes:
            raise ValueError(
                f"{self._path}, line {self._empty[0]} is empty; an example "
                "without labels and features is a space"
            )
        for number in self._empty[:count]:
            self._labels.add(number, [])
            self._features.add(number, [])
        self._empty = []

    def data(self):
        """The data set, once all lines are read."""
        if self._sizes:
            # Other empty lines end the file.
            missing = max(self._sizes[0] - len(self._labels), 0)
            self._add_empty(min(missing, len(self._empty)))
        examples = len(self._labels)
        if self._sizes and examples != self._sizes[0]:
            raise ValueError(
                f"{self._path}: the first line says {self._sizes[0]} examples, "
                f"but there are {examples}"
            )
        _, num_features, num_labels = self._sizes or (None, None, None)
        features, feature_starts, num_features = self._features.arrays(
            num_features
        )
        labels, label_starts, num_labels = self._labels.arrays(num_labels)
        return ExtremeData(
            num_features=num_features,
            num_labels=num_labels,
            label_starts=label_starts,
            label_ids=labels,
            feature_starts=feature_starts,
            feature_ids=features,
            feature_values=np.array(self._values, np.float32),
        )
