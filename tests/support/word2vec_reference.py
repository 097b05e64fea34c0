"""A step of skip-gram and of CBOW in float64 NumPy, one example at a time.

With u a word's vector, h the input of an example (the vector of one word, or
the mean of several) and w_r the rows of the tree:

    loss = sum over the groups on the label's path of lse(w h) - w_on_path h
    dw_r = (softmax(w h)_r - [r is on the path]) h
    dh   = sum of (softmax(w h)_r - [r is on the path]) w_r
    du   = dh, or dh / n where u is one of n words of a window

In a pinned tree w_r is zero for the second row of a group, and stays so.
A batch adds up the gradients of its examples, all with the tables before it.
"""

import numpy as np

_INITIAL, _EPSILON = 0.1, 1e-7  # of Keras' Adagrad


class Reference:
    """The tables of word2vec, and an optimizer's sums of squares.

    Attributes:
        vectors: `[N, width]`.
        weights: `[rows, width]`; of a pinned tree, those of the first rows.
    """

    def __init__(self, tree, vectors, weights, optimizer):
        self._tree = tree
        self._optimizer = optimizer
        self.vectors, self.weights = (
            np.array(table, np.float64) for table in (vectors, weights)
        )
        self._squares = {
            name: np.full(_shape_of_squares(optimizer, table), _INITIAL)
            for name, table in (("vectors", vectors), ("weights", weights))
        }

    def step(self, windows, labels, rate):
        """Changes the tables; returns the losses.

        Args:
            windows: lists of words, one each for skip-gram.
            labels: a word for each.
            rate: of learning.
        """
        losses = []
        gradients = {
            name: np.zeros_like(getattr(self, name)) for name in self._squares
        }
        for window, label in zip(windows, labels, strict=True):
            h = self.vectors[window].mean(0)
            dh, loss = np.zeros_like(h), 0.0
            for row in self._tree.path(label):
                rows = self._siblings(row)
                own = rows[:1] // 2 if self._tree.pinned else rows
                w = np.zeros([rows.size, h.size])
                w[: own.size] = self.weights[own]
                z = w @ h
                p = np.exp(z - z.max())
                p /= p.sum()
                on_path = rows == row
                loss -= np.log(p[on_path][0])
                dz = p - on_path
                dh += dz @ w
                gradients["weights"][own] += np.outer(dz[: own.size], h)
            np.add.at(gradients["vectors"], window, dh / len(window))
            losses.append(loss)
        for name, gradient in gradients.items():
            table = getattr(self, name)
            table -= rate * gradient * self._scale(name, gradient)
        return losses

    def _scale(self, name, gradient):
        if self._optimizer == "sgd":
            return 1.0
        squares = gradient**2
        if self._optimizer == "rowwise_adagrad":
            squares = squares.mean(1, keepdims=True)
        self._squares[name] += squares
        return 1 / np.sqrt(self._squares[name] + _EPSILON)

    def _siblings(self, row):
        offsets = self._tree.group_offsets
        group = np.searchsorted(offsets, row, "right") - 1
        return np.arange(offsets[group], offsets[group + 1])


def _shape_of_squares(optimizer, table):
    return {
        "sgd": (),
        "adagrad": table.shape,
        "rowwise_adagrad": (len(table), 1),
    }[optimizer]
