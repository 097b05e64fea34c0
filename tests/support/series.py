"""A stand-in for pandas, on which the package does not depend."""

import numpy as np


class Series:
    """What the package uses of a `pandas.Series`."""

    ndim = 1

    def __init__(self, index, values):
        self._index, self.values = index, np.array(values)

    def keys(self):
        return self._index

    def items(self):
        return zip(self._index, self.values, strict=True)
