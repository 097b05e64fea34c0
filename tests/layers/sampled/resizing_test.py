"""SampledSoftmax with more or fewer classes: rows, draws, counts."""

import keras
import numpy as np
import pytest

import tf_hsm
from tests.support.models import (
    NUM_CLASSES,
    NUM_SAMPLED,
    WIDTH,
    compile_form,
    head_of,
    make_data,
    sampled_head,
)
from tests.support.resized_heads import randomized
from tests.support.resized_models import check_goes_on
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


@pytest.mark.parametrize("given", [False, True])
def test_counts_of_a_sampler(given):
    """It keeps the old counts, with their mean for new classes; or has new."""
    head = built(sampler="counts", counts=COUNTS, power=1.0)
    counts = 3 + np.arange(NUM_CLASSES + NEW)[::-1] if given else None
    grown = head.grow(TOTAL, counts)
    assert (grown.sampler, grown.power) == ("counts", 1.0)
    expected = counts
    if not given:
        expected = np.append(COUNTS, np.full(NEW, COUNTS.mean()))
    same = SampledSoftmax(
        TOTAL,
        num_sampled=NUM_SAMPLED,
        sampler="counts",
        counts=expected,
        power=1.0,
    )
    np.testing.assert_allclose(
        grown._draws.expected_counts, same._draws.expected_counts, rtol=1e-12
    )
    again = SampledSoftmax.from_config(grown.get_config())
    np.testing.assert_array_equal(
        again._draws.expected_counts, grown._draws.expected_counts
    )


@pytest.mark.parametrize(
    "change, size, rows",
    [
        (lambda model: tf_hsm.grow(model, TOTAL), TOTAL, None),
        (
            lambda model: tf_hsm.prune(model, KEEP, merge=False).model,
            KEEP.size,
            KEEP,
        ),
    ],
)
def test_models(change, size, rows, tmp_path):
    """Training goes on with more or fewer classes, from the same step."""
    keras.utils.set_random_seed(0)
    model = compile_form(make=sampled_head, compiling={"run_eagerly": True})
    tokens, labels = make_data()
    found = head_of(
        check_goes_on(
            model,
            change,
            rows,
            {"x": tokens, "y": labels},
            None,
            {"x": tokens, "y": (labels + NEW) % size},
            tmp_path,
        )
    )
    assert found.num_classes == size
    assert found.step.numpy() == head_of(model).step.numpy() + 12


def test_counts_of_a_sampler_of_fewer_classes():
    """They say which classes are frequent, and follow the classes."""
    head = built(sampler="counts", counts=COUNTS, power=1.0)
    found = head.prune(12, merge=False).head
    np.testing.assert_array_equal(found._counts, COUNTS[-12:])
    again = type(found).from_config(found.get_config())
    np.testing.assert_array_equal(again._counts, COUNTS[-12:])
    assert (found.sampler, found.power) == ("counts", 1.0)
