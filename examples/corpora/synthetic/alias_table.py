"""Draws from many discrete distributions at once, in constant time each."""

import numpy as np


class AliasTable:
    """Distributions over `S` values each: Walker's (1977) alias method.

    Column i of a row is drawn with probability 1/S and kept with probability
    `threshold[i]`; otherwise its alias is taken. A draw costs two look-ups.
    """

    def __init__(self, weights, values):
        """Builds the tables in O(S log S) for each row.

        Args:
            weights: `[R, S]`, the probabilities of the values of each row, up
                to a factor; not negative.
            values: `[R, S]` integers.
        """
        tables = [_thresholds_and_aliases(row) for row in weights]
        self._threshold = np.concatenate([threshold for threshold, _ in tables])
        aliases = np.stack([alias for _, alias in tables])
        # What is kept, and the alias, side by side.
        self._values = np.stack(
            [values, np.take_along_axis(values, aliases, axis=1)], axis=-1
        ).ravel()
        self._num_columns = values.shape[1]

    def draw(self, rng, rows):
        """Returns a value of each of the rows, `[N]` for `[N]`."""
        column = rng.random(rows.size)
        column *= self._num_columns
        cell = column.astype(np.int32)
        column -= cell
        cell += rows * np.int32(self._num_columns)
        replaced = column >= self._threshold[cell]
        cell *= 2
        cell += replaced
        return self._values[cell]


def _thresholds_and_aliases(weights):
    """Vose's (1991) construction, as two merges of sorted sums.

    With weights of mean 1, light columns lack `1 - w`, heavy ones have `w - 1`
    to give. The heavy ones give in order; one that is exhausted in the midst of
    a light column is itself light from there on, and the next one fills it up.
    """
    scaled = weights * (weights.size / weights.sum())
    light, heavy = np.flatnonzero(scaled < 1), np.flatnonzero(scaled >= 1)
    lacking = np.cumsum(1 - scaled[light])
    given = np.cumsum(scaled[heavy] - 1)

    threshold = np.minimum(scaled, 1)
    alias = np.arange(weights.size)
    lacking_before = np.concatenate([[0.0], lacking])[: light.size]
    giver = np.searchsorted(given, lacking_before)
    alias[light] = heavy[np.minimum(giver, heavy.size - 1)]

    exhausting = np.searchsorted(lacking, given[:-1], side="right")
    exhausted = np.flatnonzero(exhausting < light.size)
    threshold[heavy[exhausted]] = (
        1 + given[exhausted] - lacking[exhausting[exhausted]]
    )
    alias[heavy[exhausted]] = heavy[exhausted + 1]
    return threshold, alias
