"""Reading of labels and contexts as pairs and counts."""

import numpy as np

from tf_hsm import _checks
from tf_hsm.tree.arrays import ranges
from tf_hsm.tree.data.pairs import PairCounter
from tf_hsm.tree.memory import check_fits

_CHUNK = 1 << 18  # examples of an array that are read together, in a cache
_SET_CHUNK = 1 << 14  # the same of sets of labels, which padding makes long
_PAIRS = 1 << 22  # pairs of sets of labels that are made together
_WINDOW = 2  # the tokens of a sequence that are the context of the next one
_FEATURES = 1 << 32  # A feature is an id and its position.
CLASS_BYTES = 8  # of a count


class Reader:
    """Counts labels, and pairs of labels and features of their contexts.

    Attributes:
      counts: `[N]` int64, how often each class occurs, where N is the number of
        classes, or one more than the largest label so far.
      sampled_counts: `[N]` int64, for how many of its labels pairs are counted,
        if these are a sample.
    """

    def __init__(
        self, num_classes, is_ordered, report, are_sets=False, sample=None
    ):
        """Starts with no example.

        Without `num_classes`, N, the labels tell it. `is_ordered` says whether
        each column of contexts is a feature of its own; None: unless an id is
        negative or contexts are ragged. `report` is called with a text now and
        then. With `are_sets`, each example has a set of labels, `[n, M]`.

        `sample`, a number m and a NumPy generator, bounds the pairs: of each
        class in an array, about m random labels have their pairs counted. A
        dataset is read once, so that a label counts with probability m / n if
        the class has occurred n times by the end of its batch: late ones count
        less.
        """
        self.counts = np.zeros(num_classes or 0, np.int64)
        self.sampled_counts = self.counts
        self._sample = sample
        self._num_classes = num_classes
        self._is_ordered = is_ordered
        self._are_sets = are_sets
        self._is_padded = False
        self._num_columns = None
        self._pairs = PairCounter()
        self._report = report

    def read(self, labels, contexts):
        """Reads all examples: see `Tree.from_data`."""
        lists = "lists of ids, such as tf_hsm.label_lists(...)"
        for name, values in (("labels", labels), ("contexts", contexts)):
            _checks.refuse_sparse(name, values, lists)
        num_read = 0
        chunk = _SET_CHUNK if self._are_sets else _CHUNK
        self._is_counted = self._sample is not None and _is_array(labels)
        if self._is_counted:
            for (batch, _), _ in _batches(labels, None, chunk):
                batch = _integers("labels", batch)
                self._count(batch[batch >= 0])
        for batch, total in _batches(labels, contexts, chunk):
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
        is_bag = self._is_padded and self._is_ordered is None
        if is_bag or self._is_ordered is False:
            pairs = pairs.merged(self._num_columns)
        return pairs.renumbered()

    def _add(self, labels, contexts, weights=None):
        """Reads a batch; returns its number of labels."""
        labels = _integers("labels", labels)
        is_ragged = hasattr(contexts, "row_splits")
        if contexts is not None:
            contexts = _integers("contexts", contexts)
        if weights is not None:
            labels = np.where(_broadcast(weights, labels) == 0, -1, labels)
        if self._are_sets:
            _check_sets(labels, self._num_classes)
            return self._add_sets(labels, contexts, is_ragged)
        # A sequence of one position stays a sequence.
        is_sequence = contexts is not None and contexts.shape == labels.shape
        if labels.ndim > 1 and labels.shape[-1] == 1 and not is_sequence:
            labels = labels[..., 0]
        columns = None
        if contexts is not None:
            columns = _columns(labels, contexts)
            if contexts.ndim > labels.ndim:
                self._is_padded |= is_ragged or bool((contexts < 0).any())
        labels = labels.reshape(-1)
        known = labels >= 0
        if not self._is_counted:
            self._count(labels[known])
        if columns is not None:
            labels = np.where(self._chosen(labels), labels, -1)
            self._add_pairs(labels, columns)
        return np.count_nonzero(known)

    def _add_sets(self, labels, contexts, is_ragged):
        """Reads sets `[n, M]`; returns their number of labels.

        Without contexts, the context of a label is the other labels of its set.
        """
        is_label = labels >= 0
        examples, _ = np.nonzero(is_label)
        values = labels[is_label]
        num_labels = values.size
        if not self._is_counted:
            self._count(values)
        chosen = self._chosen(values)
        examples, values = examples[chosen], values[chosen]
        are_own = contexts is None
        if are_own:
            contexts, self._is_padded, self._num_columns = labels, True, 1
        elif contexts.shape[:1] == labels.shape[:1] and contexts.ndim <= 2:
            contexts = contexts.reshape(len(labels), -1)
            self._is_padded |= is_ragged or bool((contexts < 0).any())
        else:
            raise ValueError(
                f"contexts have the shape {list(contexts.shape)} and labels "
                f"{list(labels.shape)}; with several_labels contexts must be "
                "[n, C], [n] or ragged for labels [n, M]"
            )
        is_known = contexts >= 0
        features = self._features(contexts, np.arange(contexts.shape[1]))
        features = features[is_known]
        counts = is_known.sum(1)
        starts = (np.cumsum(counts) - counts)[examples]
        counts = counts[examples]
        # Pairs of a label and a feature, so many at a time.
        ends = np.cumsum(counts)
        for part in _parts(ends):
            places = ranges(starts[part], counts[part])
            pairs = np.repeat(values[part], counts[part]), features[places]
            if are_own:
                is_other = pairs[0] != pairs[1]
                pairs = pairs[0][is_other], pairs[1][is_other]
            self._pairs.add(*pairs)
        return num_labels

    def _features(self, ids, number):
        """Returns the features of ids in the columns of a number."""
        self._num_columns = self._num_columns or ids.shape[1]
        size = self._num_columns
        largest = int(ids.max(initial=-1))
        if largest >= _FEATURES // size:
            raise ValueError(
                f"contexts have the id {largest}; with {size} ids for each "
                f"label an id must be below {_FEATURES // size}"
            )
        return ids * size + np.minimum(number, size - 1)

    def _count(self, labels):
        largest = int(labels.max(initial=-1))
        if self._num_classes is None:
            check_fits(f"a label is {largest}", largest + 1, CLASS_BYTES)
        elif largest >= self._num_classes:
            raise ValueError(
                f"a label is {largest}; it must be below num_classes, "
                f"{self._num_classes}"
            )
        self.counts = _added(self.counts, labels, self.counts.size)

    def _chosen(self, labels):
        """Says for which labels pairs are counted; `counts` has the labels.

        Negative ones are no labels.
        """
        chosen = labels >= 0
        if self._sample is None:
            return chosen
        number, rng = self._sample
        seen = self.counts[labels[chosen]]
        chosen[chosen] = rng.random(seen.size) * seen < number
        self.sampled_counts = _added(
            self.sampled_counts, labels[chosen], self.counts.size
        )
        return chosen

    def _add_pairs(self, labels, columns):
        is_known_bag = self._is_ordered is False or self._is_padded
        if self._num_columns not in (None, len(columns)) and not is_known_bag:
            raise ValueError(
                f"contexts have {len(columns)} ids in one batch and "
                f"{self._num_columns} in another; pass ordered=False if their "
                "order has no meaning"
            )
        self._num_columns = self._num_columns or len(columns)
        for number, column in enumerate(columns):
            column = column.reshape(-1)
            known = (labels >= 0) & (column >= 0)
            features = self._features(column[known], number)
            self._pairs.add(labels[known], features)


def _added(counts, labels, size):
    """Returns how often each class occurs, `[size]` or more, `counts` added."""
    result = np.bincount(labels, minlength=size)
    result[: counts.size] += counts
    return result


def _check_sets(labels, num_classes):
    """Raises a ValueError unless labels can be sets, `[n, M]`."""
    if labels.ndim != 2:
        raise ValueError(
            f"labels have the shape {list(labels.shape)}; with several_labels "
            "they must be [n, M], padded with negative numbers, or ragged"
        )
    size = labels.shape[1]
    # More than two numbers of 0 and 1 repeat a class.
    are_lists = size <= 2 or num_classes not in (None, size)
    if not are_lists and np.isin(labels, (0, 1)).all():
        raise ValueError(
            f"labels {list(labels.shape)} are a multi-hot matrix; "
            "tf_hsm.label_lists(labels) makes lists of classes"
        )


def label_counts(labels, num_classes=None):
    """Returns how often each class occurs in an array of labels, `[N]`."""
    reader = Reader(num_classes, None, lambda text: None)
    reader.read(labels, None)
    return reader.counts


def _parts(ends):
    """Yields slices of labels with about `_PAIRS` pairs; `ends` are sums."""
    begin = 0
    while begin < ends.size:
        done = ends[begin - 1] if begin else 0
        end = int(np.searchsorted(ends, done + _PAIRS, side="right"))
        end = max(end, begin + 1)
        yield slice(begin, end)
        begin = end


def _batches(labels, contexts, chunk):
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
    for begin in range(0, total, chunk):
        part = slice(begin, begin + chunk)
        of_part = None if contexts is None else contexts[part]
        yield (labels[part], of_part), total


def _is_array(labels):
    if hasattr(labels, "shape"):
        return True
    if isinstance(labels, tuple) and hasattr(labels[0], "shape"):
        raise ValueError(
            "labels is a tuple of arrays; pass Tree.from_data(labels, contexts)"
        )
    return isinstance(labels, list | tuple) and not isinstance(
        next(iter(labels), 0), tuple
    )


def _elements(dataset):
    """Yields `(labels, contexts, weights)` of a dataset as `fit` takes it."""
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
        contexts, labels, *weights = element
        if isinstance(contexts, dict | tuple | list):
            raise ValueError(
                "the dataset yields several inputs; choose the ids that tell "
                "most about the label: dataset.map(lambda x, y: (x['ids'], y))"
            )
        yield labels, contexts, *weights


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
    # A cast would make them negative, which stands for none.
    if values.dtype == np.uint64 and (values > np.iinfo(np.int64).max).any():
        raise ValueError(
            f"{name} have the id {values.max()}; ids must be below 2**63"
        )
    return values.astype(np.int64, copy=False)


def _broadcast(weights, labels):
    """Returns sample weights in the shape of labels."""
    weights = np.asarray(weights)
    missing = max(labels.ndim - weights.ndim, 0)
    weights = weights.reshape(weights.shape + (1,) * missing)
    try:
        return np.broadcast_to(weights, labels.shape)
    except ValueError as error:
        raise ValueError(
            f"weights have the shape {list(weights.shape)}, labels "
            f"{list(labels.shape)}; there must be one weight for each label"
        ) from error


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
