"""SampledSoftmax with more or fewer classes: rows, draws, counts."""

import numpy as np
import pytest

from tests.support.models import (
    NUM_CLASSES,
    NUM_SAMPLED,
    WIDTH,
    sampled_head,
)
from tests.support.resized_heads import randomized
from tests.support.training import assert_same
from tf_hsm import Tree
from tf_hsm.layers import HierarchicalSoftmax, SampledSoftmax

NEW = 4
TOTAL = NUM_CLASSES + NEW
KEEP = np.array([1, 2, 5, 8, 13, 20, 21, 22, 25, 26, 27, 29])
COUNTS = 1 + np.arange(NUM_CLASSES)


def built(**options):
    """A head with random weights that has drawn seven times."""
    head = randomized(sampled_head(**options), WIDTH)
    head.step.assign(7)
    return head


@pytest.mark.parametrize("use_bias", [True, False])
@pytest.mark.parametrize("how", ["grow", "counts", "prune"])
def test_rows_of_a_softmax_over_one_group(how, use_bias):
    """`HierarchicalSoftmax` has the same; options and the step stay."""
    head = built(use_bias=use_bias, ignore_class=-1)
    flat = HierarchicalSoftmax(Tree.flat(NUM_CLASSES), use_bias=use_bias)
    randomized(flat, WIDTH)
    if how == "prune":
        found, wanted = (
            each.prune(KEEP, merge=False).head for each in (head, flat)
        )
    else:
        counts = np.append(COUNTS, [5, 10, 20, 40]) if how == "counts" else None
        found = head.grow(TOTAL, counts)
        wanted = flat.grow(Tree.flat(TOTAL), counts)
    assert_same(
        [v.numpy() for v in found.row_variables()], wanted.get_weights()
    )
    assert (found.num_classes, found.num_sampled) == (
        wanted.num_classes,
        NUM_SAMPLED,
    )
    assert found.ignore_class == -1
    assert found.step.numpy() == 7 and found.step is not head.step


@pytest.mark.parametrize("how", ["grow", "given", "prune"])
def test_counts_of_a_sampler(how):
    """Counts stay with their class; a new one has the mean or its own count."""
    head = built(sampler="counts", counts=COUNTS, power=1.0)
    if how == "prune":
        found, counts = head.prune(12, merge=False).head, COUNTS[-12:]
    elif how == "given":
        counts = 3 + np.arange(TOTAL)[::-1]
        found = head.grow(TOTAL, counts)
    else:
        found = head.grow(TOTAL)
        counts = np.append(COUNTS, np.full(NEW, COUNTS.mean()))
    again = SampledSoftmax.from_config(found.get_config())
    same = SampledSoftmax(
        counts.size,
        num_sampled=NUM_SAMPLED,
        sampler="counts",
        counts=counts,
        power=1.0,
    )
    for each in (found, again):
        assert (each.sampler, each.power) == ("counts", 1.0)
        np.testing.assert_allclose(
            each._draws.expected_counts, same._draws.expected_counts, 1e-12
        )
