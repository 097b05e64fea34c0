"""What users pass as labels and contexts, read as pairs and counts."""

import numpy as np

from tf_hsm.tree.data.pairs import PairCounter

_CHUNK = 1 << 20  # examples of an array that are read together
_WINDOW = 2  # the tokens of a sequence that are the context of the next one
_LARGEST = 1 << 32  # one more than the largest feature


class Reader:
    """Counts labels, and pairs of labels and features of their contexts.

    Attributes:
      counts: `[N]` int64, how often each class occurs, where N is the number of
        classes, or one more than the largest label so far.
    """

    def __init__(self, num_classes, is_ordered, report):
        """Starts with no example.

        Args:
          num_classes: N, or None if the labels tell.
          is_ordered: whether each column of contexts is a feature of its own;
            None: unless an id is negative or contexts are ragged.
          report: called with a text now and then.
        """
        self.counts = np.zeros(num_classes or 0, np.int64)
        self._num_classes = num_classes
        self._is_ordered = is_ordered
        self._is_padded = False
        self._num_columns = None
        self._pairs = PairCounter()
        self._report = report

    def read(self, labels, contexts):
        """Reads all examples: see `Tree.from_data`."""
        num_read = 0
        for batch, total in _batches(labels, contexts):
            num_read += self._add(*batch)
            of_all = f" of {total:,}" if total else ""
            self._report(f"{num_read:,}{of_all} labels read")
        if not num_read:
            raise ValueError("there are no labels; a tree has classes")

    def pairs(self):
        """Returns the `Pairs`, or None if there are no contexts."""
        if self._num_columns is None:
            return None
        pairs = self._pairs.pairs()
        if self._is_ordered or (
            self._is_ordered is None and not self._is_padded
        ):
            return pairs
        return pairs.merged(pairs.features // self._num_columns)

    def _add(self, labels, contexts):
        """Reads a batch; returns its number of labels."""
        labels = _integers("labels", labels)
        if labels.ndim > 1 and labels.shape[-1] == 1:
            labels = labels[..., 0]
        columns = None
        if contexts is not None:
            is_ragged = hasattr(contexts, "row_splits")
            contexts = _integers("contexts", contexts)
            columns = _columns(labels, contexts)
            if contexts.ndim > labels.ndim:
                self._is_padded |= is_ragged or bool((contexts < 0).any())
        labels = labels.reshape(-1)
        known = labels >= 0
        self._count(labels[known])
        if columns is not None:
            self._add_pairs(labels, columns)
        return np.count_nonzero(known)

    def _count(self, labels):
        largest = int(labels.max(initial=-1))
        if self._num_classes is None:
            missing = max(largest + 1 - self.counts.size, 0)
            self.counts = np.append(self.counts, np.zeros(missing, np.int64))
        elif largest >= self._num_classes:
            raise ValueError(
                f"a label is {largest}; it must be below num_classes, "
                f"{self._num_classes}"
            )
        self.counts += np.bincount(labels, minlength=self.counts.size)

    def _add_pairs(self, labels, columns):
        is_known_bag = self._is_ordered is False or self._is_padded
        if self._num_columns not in (None, len(columns)) and not is_known_bag:
            raise ValueError(
                f"contexts have {len(columns)} ids in one batch and "
                f"{self._num_columns} in another; pass ordered=False if their "
                "order has no meaning"
            )
        size = self._num_columns = self._num_columns or len(columns)
        for number, column in enumerate(columns):
            column = column.reshape(-1)
            known = (labels >= 0) & (column >= 0)
            features = column[known] * size + min(number, size - 1)
            if features.size and features.max() >= _LARGEST:
                raise ValueError(
                    f"contexts have the id {column.max()} and {size} ids for "
                    f"each label; their product must be below 2**32"
                )
            self._pairs.add(labels[known], features)


def label_counts(labels, num_classes=None):
    """Returns how often each class occurs in an array of labels, `[N]`.

    Raises:
      ValueError: as for `Tree.from_data`.
    """
    reader = Reader(num_classes, None, lambda text: None)
    reader.read(labels, None)
    return reader.counts


def _batches(labels, contexts):
    """Yields `(labels, contexts)` of some examples, and the number of all."""
    if contexts is None and not _is_array(labels):
        for batch in _elements(labels):
            yield batch, None
        return
    if not hasattr(labels, "shape"):
        labels = np.asarray(labels)
    if contexts is not None and not hasattr(contexts, "shape"):
        contexts = np.asarray(contexts)
    total = int(labels.shape[0] or 0) if labels.shape else 0
    if contexts is not None and contexts.shape[0] != total:
        raise ValueError(
            f"there are {total} labels and {contexts.shape[0]} contexts; they "
            "must be as many"
        )
    for begin in range(0, total, _CHUNK):
        part = slice(begin, begin + _CHUNK)
        of_part = None if contexts is None else contexts[part]
        yield (labels[part], of_part), total


def _is_array(labels):
    if hasattr(labels, "shape"):
        return True
    return isinstance(labels, list | tuple) and not isinstance(
        next(iter(labels), 0), tuple
    )


def _elements(dataset):
    """Yields `(labels, contexts)` of a dataset of `(contexts, labels, ...)`."""
    cardinality = getattr(dataset, "cardinality", None)
    # tf.data.INFINITE_CARDINALITY
    if cardinality is not None and int(cardinality()) == -1:
        raise ValueError(
            "the dataset is infinite; pass a part of it: "
            "dataset.take(number_of_batches)"
        )
    for element in dataset:
        if not isinstance(element, tuple | list) or not 2 <= len(element) <= 3:
            raise ValueError(
                "a dataset must yield (contexts, labels) as for fit, but "
                f"yields {type(element).__name__}; dataset.map can make them"
            )
        contexts, labels = element[:2]
        if isinstance(contexts, dict | tuple | list):
            raise ValueError(
                "the dataset yields several inputs; choose the ids that tell "
                "most about the label: dataset.map(lambda x, y: (x['ids'], y))"
            )
        yield labels, contexts


def _integers(name, values):
    """Returns integers of any shape as an int64 array; ragged ones padded."""
    if hasattr(values, "row_splits"):
        values = values.to_tensor(-1)
    values = np.asarray(values)
    if values.dtype.kind not in "iu":
        hint = (
            "; for vectors, Tree.from_embeddings takes the mean vector of each "
            "class"
            if name == "contexts"
            else ""
        )
        raise ValueError(
            f"{name} must be integers, but are {values.dtype}{hint}"
        )
    if not values.ndim:
        raise ValueError(
            f"{name} are one integer; batch the dataset: dataset.batch(1024)"
        )
    return values.astype(np.int64, copy=False)


def _columns(labels, contexts):
    """Returns the ids of the context of each label, arrays of labels' shape."""
    if contexts.shape == labels.shape:
        columns = [contexts]
        if labels.ndim > 1:
            # A sequence: the id at a position, and those before it.
            for shift in range(1, _WINDOW):
                before = np.full_like(contexts, -1)
                before[..., shift:] = contexts[..., :-shift]
                columns.append(before)
        return columns
    if contexts.shape[:-1] == labels.shape:
        return [contexts[..., i] for i in range(contexts.shape[-1])]
    raise ValueError(
        f"contexts have the shape {list(contexts.shape)} and labels "
        f"{list(labels.shape)}; contexts must be [...] or [..., C] for labels "
        "[...]"
    )
