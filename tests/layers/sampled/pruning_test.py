"""SampledSoftmax.prune: rows, draws, counts."""

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

COUNTS = 1 + np.arange(NUM_CLASSES)
KEEP = np.array([1, 2, 5, 8, 13, 20, 21, 22, 25, 26, 27, 29])


def built(**options):
    """A head with random weights that has drawn seven times."""
    head = sampled_head(**options)
    head.build([None, WIDTH])
    rng = np.random.default_rng(0)
    for variable in head.row_variables():
        variable.assign(rng.normal(size=variable.shape))
    head.step.assign(7)
    return head


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
    x = np.random.default_rng(1).normal(size=[8, WIDTH]).astype("f4")
    old = head.log_probs(x).numpy().astype(float)[:, KEEP]
    wanted = old - np.log(np.exp(old).sum(1, keepdims=True))
    np.testing.assert_allclose(found.log_probs(x), wanted, 1e-5, 1e-5)


def test_counts_of_a_sampler():
    """They say which classes are frequent, and follow the classes."""
    head = built(sampler="counts", counts=COUNTS, power=1.0)
    found = head.prune(12, merge=False).head
    np.testing.assert_array_equal(found._counts, COUNTS[-12:])
    again = type(found).from_config(found.get_config())
    np.testing.assert_array_equal(again._counts, COUNTS[-12:])
    assert (found.sampler, found.power) == ("counts", 1.0)


def test_refusals():
    with pytest.raises(ValueError, match="classes can merge; pass merge=False"):
        built().prune(KEEP)
    with pytest.raises(ValueError, match="the tree has no counts"):
        built().prune(5, merge=False)


def test_a_model(tmp_path):
    """Training goes on with fewer classes, and the model is saved."""
    tokens, labels = make_data()
    make = {"make": sampled_head, "compiling": {"run_eagerly": True}}
    model = compile_form(ignore_class=-1, **make)
    train(model, tokens, labels, epochs=1)
    pruned = tf_hsm.prune(model, KEEP, merge=False)
    found = pruned.model
    found.run_eagerly = True
    assert head_of(found).step.numpy() == 3
    losses = train(found, tokens, pruned.classes[labels], epochs=3)
    assert losses[-1] < losses[0] and head_of(found).step.numpy() == 12
    found.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    np.testing.assert_array_equal(
        head_of(loaded).log_probs(loaded(tokens)),
        head_of(found).log_probs(found(tokens)),
    )
