"""A sparse matrix as a text, one row on each line."""

import dataclasses

import numpy as np

from tf_hsm.datasets import _lines


@dataclasses.dataclass(frozen=True, eq=False)
class SparseRows:
    """Sparse rows, such as the features of each example or of each label.

    Attributes:
      num_columns: how many columns there are.
      starts: `[rows + 1]` int64; row i has the columns
        `ids[starts[i] : starts[i + 1]]`.
      ids: `[...]` int64, in [0, num_columns).
      values: `[...]` float32, of these columns.
    """

    num_columns: int
    starts: np.ndarray
    ids: np.ndarray
    values: np.ndarray

    def __len__(self):
        """Returns the number of rows."""
        return self.starts.size - 1

    def padded(self):
        """Returns ids `[rows, F]` int64 and values `[rows, F]` float32.

        Each row begins with its own ids, and ends with the id 0 and the value
        0.
        """
        return (
            _lines.padded(self.starts, self.ids, 0),
            _lines.padded(self.starts, self.values, 0),
        )

    def dense(self):
        """Returns `[rows, num_columns]` float32; for small matrices only."""
        filled = np.zeros([len(self), self.num_columns], np.float32)
        rows = np.repeat(np.arange(len(self)), np.diff(self.starts))
        filled[rows, self.ids] = self.values
        return filled


def load_sparse(path) -> SparseRows:
    """Reads one matrix of a data set of extreme classification.

    >>> features = tf_hsm.datasets.load_sparse("lbl_X_Xf.txt")
    >>> tree = tf_hsm.Tree.from_embeddings(features.dense())

    Args:
      path: of the file; `tf_hsm.datasets` shows its format. It may be
        compressed by gzip.

    Raises:
      OSError: the file cannot be read.
      ValueError: a line is not of this format; names the line and what is wrong
        with it.
    """
    return read(path, "column")


def read(path, name):
    """Reads the matrix, and calls a column `name` in messages."""
    lines = _lines.numbered_lines(path)
    _, first = next(lines, (1, ""))
    sizes = _lines.whole_numbers(first, 2)
    if sizes is None:
        raise ValueError(_not_a_matrix(path, first))
    rows, values = _lines.Ragged(path, name), []
    for number, line in lines:
        if len(rows) == sizes[0]:
            if not line.strip():
                continue  # at the end of the file
            raise ValueError(
                f"{path}, line {number}: the first line says {sizes[0]} rows, "
                "but there are more"
            )
        try:
            ids, of_row = _lines.read_pairs(line, name)
        except ValueError as error:
            raise ValueError(
                f"{path}, line {number} is not of the form "
                f"'{name}:value {name}:value': {error}"
            ) from error
        rows.add(number, ids)
        values.extend(of_row)
    if len(rows) != sizes[0]:
        raise ValueError(
            f"{path}: the first line says {sizes[0]} rows, but there are "
            f"{len(rows)}"
        )
    ids, starts, _ = rows.arrays(sizes[1])
    return SparseRows(sizes[1], starts, ids, np.array(values, np.float32))


def _not_a_matrix(path, first):
    if _lines.whole_numbers(first, 3):
        return (
            f"{path} has features and labels in one file, since its first line "
            f"has three numbers; read it by load_extreme({str(path)!r})"
        )
    return (
        f"{path}, line 1 is {first[:80]!r}; it must have two numbers, how many "
        "rows and columns there are"
    )
