"""Answers of heads: each is tried, and must have an effect.

See `head_features` for what a feature is.
"""

import functools

import numpy as np

from tests.support.heads_by_name import (
    BATCH,
    NUM_CLASSES,
    WIDTH,
    built,
    inputs,
)

ALLOWED = [1, 4, 5, 17, 28]
DRAWS = 2_000


def _case(name, **options):
    """A head, inputs, and the probabilities `[B, N]` of all classes."""
    head, given = built(name, **options), inputs(name)
    return head, given, np.exp(np.float64(head.log_probs(given)))


def embed(name):
    """The vector of a class, or of an id."""
    options = {"width": WIDTH} if name == "AdaptiveSoftmax" else {}
    head = built(name, **options)
    if not hasattr(head, "embed"):
        raise TypeError(f"{name} has no embed")
    variable = {
        "AdaptiveSoftmax": "head_kernel",
        "EmbeddingSoftmax": "embeddings",
        "SampledSoftmax": "kernel",
    }
    rows = getattr(head, variable[name])
    np.testing.assert_allclose(head.embed([3, 0]), rows.numpy()[[3, 0]])


def top_k(name, allowed=None):
    head, given, probs = _case(name)
    found = head.top_k(given, 4, allowed=allowed)
    among = np.array(allowed or range(NUM_CLASSES))
    order = np.argsort(-probs[:, among], axis=1, kind="stable")[:, :4]
    np.testing.assert_array_equal(found.classes, among[order])
    expected = np.take_along_axis(np.log(probs), among[order], 1)
    np.testing.assert_allclose(found.log_probs, expected, rtol=1e-4)


def limited(name, is_bound):
    """Exactly the classes that reach a limit are found."""
    head, given, probs = _case(name)
    axis = 1 if is_bound else None
    least = np.median(probs, axis, keepdims=True) * (1 + 1e-4)
    if is_bound:
        limit = {"bounds": np.log(least[:, 0])}
    else:
        limit = {"threshold": least.item()}
    found = head.top_k(given, NUM_CLASSES, **limit)
    wanted = probs >= least
    assert wanted.any() and not wanted.all()
    for row, its in zip(found.classes.numpy(), wanted, strict=True):
        assert sorted(row[row >= 0]) == np.flatnonzero(its).tolist()
        assert (row[its.sum() :] == -1).all()


def beams(name):
    """A beam says for which inputs its answer is exact."""
    options = {"tail": 2} if name == "AdaptiveSoftmax" else {}
    head, given, _ = _case(name, **options)
    exact = head.top_k(given, 6)
    beam, wide = (
        head.top_k(given, 6, beam_width=width, return_pruned=True)
        for width in (1, NUM_CLASSES)
    )
    is_whole = beam.num_pruned.numpy() == 0
    # One group has nothing to leave out.
    assert is_whole.all() == (name == "SampledSoftmax")
    np.testing.assert_array_equal(
        beam.classes[is_whole], exact.classes[is_whole]
    )
    assert not wide.num_pruned.numpy().any()
    np.testing.assert_array_equal(wide.classes, exact.classes)


def log_prob_of_allowed(name):
    head, given, probs = _case(name)
    classes = np.broadcast_to([4, 6], [BATCH, 2])
    found = head.log_prob(classes, given, allowed=ALLOWED).numpy()
    np.testing.assert_allclose(np.exp(found[:, 0]), probs[:, 4], rtol=1e-4)
    assert np.isneginf(found[:, 1]).all()


def renormalize(name):
    """Allowed classes have together the probability 1."""
    head, given, probs = _case(name)
    wanted = probs[:, ALLOWED] / probs[:, ALLOWED].sum(1, keepdims=True)
    options = {"allowed": ALLOWED, "renormalize": True}
    found = head.top_k(given, len(ALLOWED), **options).log_probs
    np.testing.assert_allclose(np.exp(found), -np.sort(-wanted), rtol=1e-4)
    found = head.log_prob([ALLOWED] * BATCH, given, **options)
    np.testing.assert_allclose(np.exp(found), wanted, rtol=1e-4)


def sample(name, allowed=None):
    """Classes are drawn as often as they are probable."""
    head, given, probs = _case(name)
    if allowed:
        probs *= np.isin(np.arange(NUM_CLASSES), allowed)
        probs /= probs.sum(1, keepdims=True)
    drawn, again = (
        head.sample(given, DRAWS, seed=5, allowed=allowed).numpy()
        for _ in range(2)
    )
    np.testing.assert_array_equal(drawn, again)
    for row, its in zip(drawn, probs, strict=True):
        spread = np.sqrt(DRAWS * its * (1 - its))
        counts = np.bincount(row, minlength=NUM_CLASSES)
        assert (np.abs(counts - DRAWS * its) <= 6 * spread + 1).all()


FEATURES = {
    "`embed`": embed,
    # tests/layers/conformance_test.py tests what these are.
    "`log_probs`": lambda name: built(name).log_probs(inputs(name)),
    "`log_probs(nodes=True)`": lambda name: built(name).log_probs(
        inputs(name), nodes=True
    ),
    "`log_prob`": lambda name: built(name).log_prob(
        [[0]] * BATCH, inputs(name)
    ),
    "`log_prob(nodes=True)`": lambda name: built(name).log_prob(
        [[0]] * BATCH, inputs(name), nodes=True
    ),
    "`log_prob(allowed=)`": log_prob_of_allowed,
    "`top_k`": top_k,
    "`top_k(threshold=)`": functools.partial(limited, is_bound=False),
    "`top_k(bounds=)`": functools.partial(limited, is_bound=True),
    "`top_k(beam_width=, return_pruned=)`": beams,
    "`top_k(allowed=)`": functools.partial(top_k, allowed=ALLOWED),
    "`renormalize`": renormalize,
    "`sample`": sample,
    "`sample(allowed=)`": functools.partial(sample, allowed=ALLOWED),
}
