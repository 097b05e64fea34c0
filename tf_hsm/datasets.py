"""Data sets of extreme classification: many labels, several for each example.

The Extreme Classification Repository (Bhatia et al., 2016) has its data sets in
this text format, which is that of libsvm with several labels:

    2 100 30
    4,17 3:0.5 42:1.25
     7:2

The first line says how many examples, features and labels there are. It may be
missing: then they are as many as occur. Each other line is an example: its
labels, and then its features that are not zero with their values. The second
example has no labels.
"""

import dataclasses
import re

import numpy as np

_LARGEST = float(np.finfo(np.float32).max)
_NUMBER = re.compile("[0-9]{1,18}")  # within int64


@dataclasses.dataclass(frozen=True, eq=False)
class ExtremeData:
    """Examples with sparse features and several labels, one after another.

    Attributes:
      num_features: how many features there are.
      num_labels: how many labels there are, N.
      label_starts: `[examples + 1]` int64; example i has
        `label_ids[label_starts[i] : label_starts[i + 1]]`.
      label_ids: `[...]` int64, in [0, num_labels).
      feature_starts: `[examples + 1]` int64, likewise.
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
        return _padded(self.label_starts, self.label_ids, -1)

    def padded_features(self):
        """Ids `[examples, F]` int64 and values `[examples, F]` float32.

        Those of an example stand first, and then the id 0 with the value 0.
        """
        return (
            _padded(self.feature_starts, self.feature_ids, 0),
            _padded(self.feature_starts, self.feature_values, 0),
        )

    def dense_inputs(self):
        """`[examples, num_features]` float32: for small sets only."""
        dense = np.zeros([len(self), self.num_features], np.float32)
        example = np.repeat(np.arange(len(self)), np.diff(self.feature_starts))
        dense[example, self.feature_ids] = self.feature_values
        return dense


def load_extreme(path) -> ExtremeData:
    """Reads a data set in the text format of extreme classification.

    Args:
      path: of the file; see the module for its format.

    Raises:
      OSError: the file cannot be read.
      ValueError: a line is not of this format; names the line and what is wrong
        with it.
    """
    with open(path, encoding="utf-8") as file:
        rows = _Rows(path)
        for number, line in enumerate(file, 1):
            rows.add(number, line.rstrip("\r\n"))
    return rows.data()


class _Rows:
    """What the lines so far have said."""

    def __init__(self, path):
        self._path = path
        self._sizes = None  # examples, features, labels
        self._lines = []  # the number of each example's
        self._labels = ([], [0])  # ids and starts
        self._features = ([], [0])
        self._values = []

    def add(self, number, line):
        """Reads a line."""
        if number == 1 and _is_header(line):
            self._sizes = [int(token) for token in line.split()]
            return
        labels, _, features = line.partition(" ")
        if ":" in labels:
            raise ValueError(
                f"{self._path}, line {number} begins with the feature "
                f"{labels!r}; labels stand first, and an example without any "
                "begins with a space"
            )
        if not line and not self._sizes:
            raise ValueError(
                f"{self._path}, line {number} is empty; an example without "
                "labels and features is a space"
            )
        pairs = [token.partition(":") for token in features.split()]
        try:
            ids = [_id(token) for token in labels.split(",")] if labels else []
            features = [_id(feature) for feature, _, _ in pairs]
            if len(set(features)) < len(features):
                raise ValueError("a feature stands there twice")
            self._labels[0].extend(ids)
            self._features[0].extend(features)
            self._values.extend(_value(value) for _, _, value in pairs)
        except ValueError as error:
            raise ValueError(
                f"{self._path}, line {number} is not of the form "
                f"'label,label feature:value feature:value': {error}"
            ) from error
        for ids, starts in (self._labels, self._features):
            starts.append(len(ids))
        self._lines.append(number)

    def data(self):
        """The data set, once all lines are read."""
        examples = len(self._lines)
        if self._sizes and examples != self._sizes[0]:
            raise ValueError(
                f"{self._path}: the first line says {self._sizes[0]} examples, "
                f"but there are {examples}"
            )
        said = self._sizes[1:] if self._sizes else (None, None)
        features, feature_starts, num_features = self._checked(
            "feature", *self._features, said[0]
        )
        labels, label_starts, num_labels = self._checked(
            "label", *self._labels, said[1]
        )
        return ExtremeData(
            num_features=num_features,
            num_labels=num_labels,
            label_starts=label_starts,
            label_ids=labels,
            feature_starts=feature_starts,
            feature_ids=features,
            feature_values=np.array(self._values, np.float32),
        )

    def _checked(self, name, ids, starts, count):
        """Arrays of ids and starts, and how many ids there may be."""
        ids, starts = np.array(ids, np.int64), np.array(starts, np.int64)
        most = int(ids.max(initial=-1))
        count = most + 1 if count is None else count
        bad = np.flatnonzero((ids < 0) | (ids >= count))
        if bad.size:
            example = np.searchsorted(starts, bad[0], "right") - 1
            raise ValueError(
                f"{self._path}, line {self._lines[example]} has the {name} "
                f"{ids[bad[0]]}; {name}s are 0 to {count - 1}"
            )
        return ids, starts, count


def _is_header(line):
    tokens = line.split()
    return len(tokens) == 3 and all(map(_NUMBER.fullmatch, tokens))


def _id(token):
    """A label or a feature; what it may be is checked at the end."""
    if not _NUMBER.fullmatch(token.removeprefix("-")):
        raise ValueError(f"{token!r} is no whole number below 2**63")
    return int(token)


def _value(token):
    value = float(token) if token.isascii() and "_" not in token else np.nan
    if not abs(value) <= _LARGEST:
        raise ValueError(f"{token!r} is no finite number of 32 bits")
    return value


def _padded(starts, values, padding):
    """The rows of values `[rows, longest]`, filled up with the padding."""
    sizes = np.diff(starts)
    padded = np.full([sizes.size, sizes.max(initial=0)], padding, values.dtype)
    padded[np.arange(padded.shape[1]) < sizes[:, np.newaxis]] = values
    return padded
