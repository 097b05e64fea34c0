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
    train,
)
from tests.support.resized_heads import randomized
from tf_hsm.layers import SampledSoftmax

NEW = 4
TOTAL = NUM_CLASSES + NEW
KEEP = np.array([1, 2, 5, 8, 13, 20, 21, 22, 25, 26, 27, 29])
COUNTS = 1 + np.arange(NUM_CLASSES)


def built(**options):
    """A head with random weights that has drawn seven times."""
    head = randomized(sampled_head(**options), WIDTH)
    head.step.assign(7)
    return head


def inputs():
    return np.random.default_rng(1).normal(size=[8, WIDTH]).astype("f4")


def test_new_rows_begin_with_the_mean():
    """The mean of the old rows, by their probabilities at zero inputs."""
    head = built()
    counts = np.append(COUNTS, [5, 10, 20, 40])
    grown = head.grow(TOTAL, counts)
    assert (grown.num_classes, grown.num_sampled) == (TOTAL, NUM_SAMPLED)
    assert grown.step.numpy() == 7 and grown.step is not head.step
    kernel, bias = (np.float64(v.numpy()) for v in head.row_variables())
    np.testing.assert_array_equal(grown.kernel[:NUM_CLASSES], kernel)
    np.testing.assert_array_equal(grown.bias[:NUM_CLASSES], bias)
    p = np.exp(bias) / np.exp(bias).sum()
    np.testing.assert_allclose(
        grown.kernel[NUM_CLASSES:], np.tile(p @ kernel, [NEW, 1]), rtol=1e-5
    )
    zero = np.exp(grown.log_probs(np.zeros([1, WIDTH], "f4")).numpy()[0])
    np.testing.assert_allclose(
        zero[NUM_CLASSES:], counts[NUM_CLASSES:] / counts.sum(), rtol=1e-5
    )


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


@pytest.mark.parametrize("how", ["grow", "prune"])
def test_models(how, tmp_path):
    """Training goes on with more or fewer classes, and the model is saved."""
    tokens, labels = make_data()
    eagerly = {"run_eagerly": True}
    model = compile_form(make=sampled_head, compiling=eagerly, ignore_class=-1)
    train(model, tokens, labels, epochs=1)
    kernel = head_of(model).kernel.numpy()
    if how == "grow":
        new = tf_hsm.grow(model, TOTAL)
        labels[tokens == tokens[0, 0]] = TOTAL - 1
        wanted, kept = kernel, slice(NUM_CLASSES)
    else:
        new, classes = tf_hsm.prune(model, KEEP, merge=False)
        labels = classes[labels]
        wanted, kept = kernel[KEEP], slice(None)
    new.run_eagerly = True
    head = head_of(new)
    assert head.step.numpy() == head_of(model).step.numpy() == 3
    before = head.kernel.numpy()
    np.testing.assert_array_equal(before[kept], wanted)
    losses = train(new, tokens, labels, epochs=3)
    assert losses[-1] < losses[0] and head.step.numpy() == 12
    assert np.abs(head.kernel[-1] - before[-1]).max() > 1e-3
    new.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    np.testing.assert_array_equal(
        head_of(loaded).log_probs(loaded(tokens)),
        head.log_probs(new(tokens)),
    )


@pytest.mark.parametrize("use_bias", [True, False])
def test_a_softmax_of_the_kept_classes(use_bias):
    head = built(use_bias=use_bias, ignore_class=-1)
    pruned = head.prune(KEEP, merge=False)
    found = pruned.head
    assert found.num_classes == KEEP.size and found.ignore_class == -1
    assert found.num_sampled == NUM_SAMPLED and found.step.numpy() == 7
    assert pruned.rows.tolist() == KEEP.tolist()
    for one, other in zip(
        head.row_variables(), found.row_variables(), strict=True
    ):
        np.testing.assert_array_equal(other, one.numpy()[KEEP])
    x = inputs()
    old = head.log_probs(x).numpy().astype(float)[:, KEEP]
    wanted = old - np.log(np.exp(old).sum(1, keepdims=True))
    np.testing.assert_allclose(found.log_probs(x), wanted, 1e-5, 1e-5)


def test_counts_of_a_sampler_of_fewer_classes():
    """They say which classes are frequent, and follow the classes."""
    head = built(sampler="counts", counts=COUNTS, power=1.0)
    found = head.prune(12, merge=False).head
    np.testing.assert_array_equal(found._counts, COUNTS[-12:])
    again = type(found).from_config(found.get_config())
    np.testing.assert_array_equal(again._counts, COUNTS[-12:])
    assert (found.sampler, found.power) == ("counts", 1.0)
