"""Pinned trees: binary ones that have one row of weights per group."""

import numpy as np

from tf_hsm.tree.check import check_binary


class TreePinning:
    """The methods of `Tree` that go from an ordinary tree to a pinned one."""

    def pin(self):
        """Returns this tree pinned: with one row of weights per group.

        Only the difference of a group's two logits counts, so the second row
        of each may have the logit 0. Group g then owns row g of the weights
        `[num_weight_rows, width]`, that of its first row: half as many numbers
        to keep, to read and to write. It is word2vec's layout.

        Raises:
          ValueError: a group does not have two rows; names the first one.
        """
        return self._with(pinned=True)

    def expand(self):
        """Returns this tree not pinned: with weights for each of its rows."""
        return self._with(pinned=False)

    def pin_rows(self, weights) -> np.ndarray:
        """Returns the weights of `pin()` with the probabilities of given ones.

        They are the first row of each group less the second one.

        Args:
          weights: `[R, ...]`, of all rows of this tree, or their biases.

        Returns:
          `[G, ...]`, in the type of `weights`.

        Raises:
          TypeError: they are not floats.
          ValueError: a group does not have two rows, or there are not R.
        """
        weights = self._check_weights(weights, self.num_rows)
        if weights.dtype.kind in "biu":
            raise TypeError(f"weights must be floats, but are {weights.dtype}")
        return weights[0::2] - weights[1::2]

    def expand_rows(self, weights) -> np.ndarray:
        """Returns the weights of `expand()` with the values of given ones.

        Those of the second row of each group are zeros.

        Args:
          weights: `[G, ...]`, of this tree when pinned, or their biases.

        Returns:
          `[R, ...]`, in the type of `weights`.

        Raises:
          ValueError: a group does not have two rows, or there are not G.
        """
        weights = self._check_weights(weights, self.num_groups)
        expanded = np.zeros([self.num_rows, *weights.shape[1:]], weights.dtype)
        expanded[0::2] = weights
        return expanded

    def _check_weights(self, weights, size):
        check_binary(self.group_offsets)
        weights = np.asarray(weights)
        if weights.shape[:1] != (size,):
            raise ValueError(
                f"weights has the shape {list(weights.shape)}; it must be "
                f"[{size}, ...]"
            )
        return weights
