"""Trees in stock TensorFlow: copies of groups, or a loop over examples."""

import dataclasses

from tf_hsm import baselines
from tf_hsm.estimation.heads import passed
from tf_hsm.estimation.heads.head_type import Head
from tf_hsm.estimation.heads.passed import Passed
from tf_hsm.estimation.heads.table import Table
from tf_hsm.estimation.part import Work
from tf_hsm.tree import Tree
from tf_hsm.tree.check import check_not_pinned

# Kernels that an example's group takes in a `tf.map_fn`, forward and backward.
_MAP_OPS = (25, 60)
_LEVEL_OPS = (20, 40)


@dataclasses.dataclass(frozen=True)
class BaselineHead(Head):
    """A loss of `tf_hsm.baselines` on variables `[R, D]` and `[R]`.

    Attributes:
      function: "gather", "embedding_lookup" or "map_fn".
      passed: the `Passed` of its tree.
      widest: `[L]`, the largest fanout of each level.
      num_groups: `[L]`.
    """

    function: str
    passed: Passed
    widest: tuple
    num_groups: tuple

    def _parts(self, setting, width):
        table = Table(self.passed.num_rows, width, True, setting)
        make = self._looped if self.function == "map_fn" else self._copied
        touched, fields = make(setting.tokens, width, setting.itemsize, table)
        return [table.part(self.name, f"tf.{self.function}", touched, **fields)]

    def _copied(self, tokens, width, size, table):
        """Each level's groups are copied, `[B, K, D]`, but for one group's."""
        copies = [
            wide * width * (1 if count == 1 else tokens)
            for wide, count in zip(self.widest, self.num_groups, strict=True)
        ]
        numbers, logits = sum(copies), tokens * sum(self.widest)
        products = 2 * logits * width
        # The gradient joins the rows of all levels, and may repeat them.
        return numbers // width, {
            "saved_bytes": numbers * size,
            "tensor_bytes": max(copies) * size,
            "backward_bytes": numbers * size,
            "forward": Work(products, 3 * size * numbers, 20),
            "backward": Work(2 * products, 6 * size * numbers, 40),
        }

    def _looped(self, tokens, width, size, table):
        """Each example's groups are sliced; each slice's gradient is dense."""
        logits = tokens * sum(self.widest)
        products = 2 * logits * width
        dense = table.rows * width * size
        groups = tokens * len(self.widest)
        forward, backward = _MAP_OPS
        return None, {
            "saved_bytes": logits * width * size,
            "tensor_bytes": dense,
            # Ten dense gradients at once, one of them the result, as
            # `//benchmarks:estimate` of commit a1d0e13d shows.
            "backward_bytes": 9 * dense,
            "forward": Work(
                products, 3 * logits * width * size, forward * groups
            ),
            "backward": Work(
                2 * products, 3 * groups * dense, backward * groups
            ),
        }


def named(name, classes, counts):
    """Returns the head of a `Tree`, or of N classes in two levels.

    Args:
      name: of the head and of its function in `tf_hsm.baselines`.
      classes: a `Tree`, or N.
      counts: as of `passed.of`.
    """
    found = passed.of(classes, counts)
    if isinstance(classes, Tree):
        check_not_pinned(classes, f"{name!r}")
        levels = baselines.tree_levels(classes)
        widest, num_groups = levels.widest, levels.num_groups
    else:
        fanouts = found.fanouts
        widest = [int(fanouts[0])]
        num_groups = [1]
        if fanouts.size > 1:
            widest.append(int(fanouts[1:].max()))
            num_groups.append(fanouts.size - 1)
    return BaselineHead(
        name,
        found.num_classes,
        name,
        found,
        tuple(widest),
        tuple(num_groups),
    )
