"""Examples with several labels, which follow from their inputs."""

import numpy as np

# The labels of a group are alike, and lie side by side.
GROUP = 10
# The weights of a group's vector, of the mean of the labels' own, and of noise.
_OF_GROUP, _OWN, _NOISE = 1.0, 0.7, 0.1


class Source:
    """Draws examples.

    An example has between one label and `most`, all of one group, the first by
    Zipf's law. Its inputs are the mean of the random vectors of its labels and
    of their group, and noise.

    Args:
      num_labels: a multiple of `GROUP`.
      width: of the inputs.
      most: labels of an example, at most `GROUP`.
    """

    def __init__(self, num_labels, width, most):
        rng = np.random.default_rng(0)
        self._most = most
        self._groups = rng.normal(size=[num_labels // GROUP, width])
        self._own = rng.normal(size=[num_labels, width])
        self._ranked = rng.permutation(num_labels)
        self._mass = np.cumsum(1 / np.arange(1, num_labels + 1))

    def draw(self, count, seed):
        """Returns inputs `[count, width]` of length 1, and labels.

        The labels are `[count, most]`, -1 after an example's last one.
        """
        rng = np.random.default_rng(seed)
        drawn = rng.random(count) * self._mass[-1]
        first = self._ranked[np.searchsorted(self._mass, drawn)]
        group, place = np.divmod(first, GROUP)
        step = np.arange(self._most)
        labels = (place[:, None] + step) % GROUP + GROUP * group[:, None]
        number = rng.integers(1, self._most + 1, count)[:, None]
        present = step < number
        own = np.einsum("bm,bmd->bd", present, self._own[labels])
        inputs = _OF_GROUP * self._groups[group] + _OWN * own / number
        noise = rng.normal(size=inputs.shape, scale=inputs.shape[1] ** 0.5)
        inputs += _NOISE * noise
        inputs /= np.linalg.norm(inputs, axis=1, keepdims=True)
        return inputs.astype("f4"), np.where(present, labels, -1)


def precisions(labels, found):
    """P@1, P@3 and P@5, in percent.

    Args:
      labels: `[B, M]`, -1 for none.
      found: `[B, 5]`, best first; -1 for none.
    """
    hits = (found[:, :, np.newaxis] == labels[:, np.newaxis]).any(2)
    hits &= found >= 0
    return [100 * float(hits[:, :k].mean()) for k in (1, 3, 5)]
