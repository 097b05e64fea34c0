"""Two-means with parts of given sizes, on many runs of points at once.

To give m of n points to a mean a and the rest to a mean b, with the least sum
of squared distances, one takes the m points that lie farthest along a - b. So a
step of Lloyd's algorithm is one projection and one selection. It is exactly
balanced, and never makes the sum larger. Label trees are learned in this way in
Prabhu et al., Parabel, WWW 2018.

Sums are made by `einsum`, in one thread and one order, not by a BLAS: results
then do not depend on the number of threads.
"""

import numpy as np

_CHUNK = 2**20  # numbers that are worked on at once: they fit the cache
_SAMPLE = 2**24  # numbers from which the parts of larger runs are learned
_POWER_STEPS = 4  # to learn a principal direction
_MOVED_SHARE = 1e-3  # of the points: fewer, and the parts are good


class TwoMeans:
    """An order of points, in which runs can be split into compact parts.

    Attributes:
      order: `[N]` int64, the point at each place.
      width: D.
    """

    def __init__(self, points, seed, max_iterations):
        """Starts with the points `[N, D]` float32 in their own order.

        A split takes at most `max_iterations` steps of Lloyd's algorithm.
        """
        self.order = np.arange(len(points))
        self.width = points.shape[1]
        self._points = points
        self._max_iterations = max_iterations
        self._random = np.random.default_rng(seed)
        self._chunk_rows = max(_CHUNK // self.width, 1)
        self._sample_rows = max(_SAMPLE // self.width, 1024)

    def split(self, left, right, improve=False):
        """Divides the points of each two runs of places among them anew.

        Within its run the points keep the order in which they stood in both.

        Args:
          left: the first places and the sizes, `[P]` each, of P runs.
          right: the places of P other runs. No two of the 2 P overlap.
          improve: whether to improve what is there. By default only the
            principal direction of both runs counts.

        Returns:
          `[P]`, how many points of each run went to the other one.
        """
        (left_starts, left_sizes), (right_starts, right_sizes) = left, right
        num_moved = np.empty(left_starts.size, np.int64)
        for same in self._alike(left_sizes, right_sizes):
            num_left = left_sizes[same[0]]
            places = np.hstack(
                [
                    _runs(left_starts[same], num_left),
                    _runs(right_starts[same], right_sizes[same[0]]),
                ]
            )
            members = self.order[places]
            is_left = self._choose_left(members, num_left, improve)
            self.order[places] = np.hstack(
                [
                    members[is_left].reshape(same.size, -1),
                    members[~is_left].reshape(same.size, -1),
                ]
            )
            num_moved[same] = np.count_nonzero(is_left[:, num_left:], axis=1)
        return num_moved

    def means(self, starts, sizes):
        """Returns `[P, D]`, the mean of the points of each run of places."""
        means = np.empty((starts.size, self.width), np.float32)
        for same in self._alike(sizes):
            places = _runs(starts[same], sizes[same[0]])
            means[same] = self._rows(self.order[places]).mean(axis=1)
        return means

    def _alike(self, *sizes):
        """Yields indices of runs of the same sizes that make a chunk."""
        key, num_rows = sizes[0], sum(sizes)
        for more in sizes[1:]:
            key = key * (more.max(initial=0) + 1) + more
        runs = np.argsort(key, kind="stable")
        begin = 0
        for end in [*(np.flatnonzero(np.diff(key[runs])) + 1), runs.size]:
            if begin < end:
                step = max(1, self._chunk_rows // num_rows[runs[begin]])
            while begin < end:
                yield runs[begin : min(begin + step, end)]
                begin += step
            begin = end

    def _rows(self, members):
        return np.take(self._points, members, axis=0)

    def _choose_left(self, members, num_left, improve):
        """Returns `[P, n]` booleans, `num_left` of them true in each run."""
        size = members.shape[1]
        is_left = None
        if improve:
            is_left = np.broadcast_to(np.arange(size) < num_left, members.shape)
        if size <= self._sample_rows:
            return self._learn(self._rows(members), num_left, is_left)[0]
        sample = self._random.choice(size, self._sample_rows, replace=False)
        sample.sort()
        _, direction = self._learn(
            self._rows(members[:, sample]),
            max(num_left * sample.size // size, 1),
            None if is_left is None else is_left[:, sample],
        )
        scores = np.empty(members.shape, np.float32)
        for begin in range(0, size, self._chunk_rows):
            chunk = slice(begin, begin + self._chunk_rows)
            scores[:, chunk] = _project(
                self._rows(members[:, chunk]), direction
            )
        return _largest(scores, num_left)

    def _learn(self, points, num_left, before):
        """Finds the compact parts of runs of points.

        The means of `points [P, n, D]` are taken off in place. The left part
        has `num_left` points, and the result must not be worse than the parts
        `before`, `[P, n]` booleans or None.

        Returns:
          `[P, n]` booleans, and the sums `[P, D]` of the left parts.
        """
        points -= points.mean(axis=1, keepdims=True)
        principal = self._principal(points)
        if before is None:
            return self._iterate(points, principal, num_left)
        is_left, direction = self._iterate(
            points, _sum(points, before), num_left, before
        )
        # An axis has two ends: take the one that moves fewer points.
        principal *= np.copysign(1, _dot(principal, direction))[:, None]
        others, their_direction = self._iterate(points, principal, num_left)
        # All sums of squared distances to the means are a constant less a
        # multiple of the square of the direction.
        squares = _dot(direction, direction)
        better = _dot(their_direction, their_direction) > 1.00001 * squares
        is_left[better] = others[better]
        direction[better] = their_direction[better]
        return is_left, direction

    def _iterate(self, points, direction, num_left, is_left=None):
        """Runs Lloyd's algorithm until hardly any point moves.

        As the mean of a run is 0, the sum of its left part is the direction
        from the mean of the right one to the mean of the left.
        """
        for _ in range(self._max_iterations):
            before = is_left
            is_left = _largest(_project(points, direction), num_left)
            direction = _sum(points, is_left)
            if before is not None:
                num_moved = np.count_nonzero(is_left & ~before)
                if num_moved <= _MOVED_SHARE * is_left.size:
                    break
        return is_left, direction

    def _principal(self, points):
        """Returns about the principal directions `[P, D]`, by power steps."""
        direction = self._random.standard_normal(self.width, np.float32)
        direction = np.broadcast_to(direction, points[:, 0].shape)
        for _ in range(_POWER_STEPS):
            direction = _sum(points, _project(points, direction))
            largest = np.abs(direction).max(axis=1, keepdims=True)
            direction /= np.where(largest > 0, largest, 1)
        return direction


def _runs(starts, size):
    """Returns `[P, size]`, the places of P runs."""
    return starts[:, None] + np.arange(size)


def _project(points, direction):
    """Returns `[P, n]`, points `[P, n, D]` times directions `[P, D]`."""
    return np.einsum("pnd,pd->pn", points, direction)


def _dot(a, b):
    """Returns `[P]`, the products of vectors `[P, D]`."""
    return np.einsum("pd,pd->p", a, b)


def _sum(points, weights):
    """Returns `[P, D]`, the weighted sums of points `[P, n, D]`."""
    return np.einsum("pnd,pn->pd", points, weights.astype(np.float32))


def _largest(scores, count):
    """Marks the `count` largest scores of a row, the first where some tie."""
    cut = scores.shape[1] - count
    least = np.partition(scores, cut, axis=1)[:, cut, None]
    marked = scores >= least
    if np.count_nonzero(marked) > len(scores) * count:
        above = scores > least
        num_tied = count - np.count_nonzero(above, axis=1)[:, None]
        marked &= above | (np.cumsum(marked ^ above, axis=1) <= num_tied)
    return marked
