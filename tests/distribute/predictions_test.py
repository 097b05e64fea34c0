"""A head on devices or replicas answers as one on one device does."""

import functools
import itertools

import numpy as np
import pytest
import tensorflow as tf

from tests.support import spread_heads
from tests.support.devices import CPUS
from tests.support.inference_reference import p_value
from tests.support.pairs import all_pairs
from tests.support.spread_heads import BATCH, WIDTH, N
from tests.support.training import assert_near, assert_same
from tf_hsm.layers import HierarchicalSoftmax

TREES = ["huffman", "pinned", "two_level", "chain", "flat"]


@functools.cache
def heads(name, count, seed=0, scale=1.0):
    """A head on one device and the same on `count`; inputs `[B, D]`."""
    one, several = (
        spread_heads.make_head(name, None, place)
        for place in (None, CPUS[:count])
    )
    rng = np.random.default_rng(seed)
    one.kernel.assign(scale * rng.normal(size=one.kernel.shape))
    one.bias.assign(rng.normal(size=one.bias.shape))
    several.load_own_variables(spread_heads.saved(one))
    return one, several, tf.constant(rng.normal(size=(BATCH, WIDTH)))


CASES = [("huffman", 1), ("huffman", 8), *[(name, 3) for name in TREES]]
everywhere = pytest.mark.parametrize("name, count", CASES)


def alternately_traced(cases):
    """Each case with whether it runs in a graph, as every other one does."""
    return list(zip(cases, itertools.cycle([True, False]), strict=False))


@everywhere
@pytest.mark.parametrize("nodes", [False, True])
def test_log_probs(name, count, nodes):
    one, several, inputs = heads(name, count)
    results = []
    for head in (one, several):
        with tf.GradientTape() as tape:
            tape.watch(inputs)
            log_probs = head.log_probs(inputs, nodes=nodes)
            total = tf.reduce_sum(tf.sin(log_probs))
        sources = [inputs, *head.row_variables()]
        dx, *gradients = tape.gradient(total, sources)
        results.append([log_probs, dx])
        if head is one:
            kernel_gradient = gradients[0]
        else:
            rows = [several.plan.weight_rows_of()] + [
                several.plan.weight_rows_of(shard)
                for shard in several.plan.shards
                if shard.num_units
            ]
            for at, gradient in zip(rows, gradients[::2], strict=True):
                wanted = tf.gather(kernel_gradient, at)
                assert_near(gradient, wanted, 1e-12)
    assert_near(*results, 1e-12)


@everywhere
def test_log_prob(name, count):
    one, several, inputs = heads(name, count)
    classes = np.random.default_rng(1).integers(N, size=(BATCH, 7))
    assert_near(
        several.log_prob(classes, inputs), one.log_prob(classes, inputs), 1e-12
    )
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"classes\[3\] ="):
        several.log_prob([[0, 1], [2, 60]], inputs[:2])


@pytest.mark.parametrize(
    "case, k, scale, traced",
    all_pairs(CASES, [1, 5, 60], [0.1, 8.0], [False, True]),
)
def test_top_k(case, k, scale, traced):
    one, several, inputs = heads(*case, scale=scale)
    wanted = one.top_k(inputs, k)
    top_k = tf.function(several.top_k) if traced else several.top_k
    found = top_k(inputs, k)
    assert_near(found.log_probs, wanted.log_probs, 1e-12)
    np.testing.assert_array_equal(found.classes, wanted.classes)
    np.testing.assert_array_equal(
        several.predict_class(inputs), wanted.classes[:, 0]
    )


@pytest.mark.parametrize("case, traced", alternately_traced(CASES))
def test_top_k_with_bounds(case, traced):
    """What is left of the best classes, also in a top that has classes."""
    one, several, inputs = heads(*case)
    top_k = tf.function(several.top_k) if traced else several.top_k
    wanted = one.top_k(inputs, 9)
    bounds = wanted.log_probs.numpy()[np.arange(BATCH), np.arange(BATCH) % 9]
    # Between two classes: the parts round them each in their own way.
    bounds -= 1e-9
    bounds[:3] = -np.inf, np.inf, np.nan
    for found in (
        one.top_k(inputs, 9, bounds=bounds),
        top_k(inputs, 9, bounds=bounds),
    ):
        bound = np.where(np.isnan(bounds), -np.inf, bounds)[:, np.newaxis]
        is_left = wanted.log_probs.numpy() >= bound
        assert_near(
            np.exp(found.log_probs),
            np.where(is_left, np.exp(wanted.log_probs), 0),
            1e-12,
        )
        np.testing.assert_array_equal(
            found.classes, np.where(is_left, wanted.classes, -1)
        )


@pytest.mark.parametrize(
    "name, count", [("huffman", 8), ("chain", 3), ("flat", 3)]
)
def test_top_k_of_shapes(name, count):
    """Any batch, a k that is a tensor, and a beam that says what it pruned."""
    one, several, inputs = heads(name, count)
    found = several.top_k(inputs[tf.newaxis, :6], tf.constant(4))
    wanted = one.top_k(inputs[tf.newaxis, :6], 4)
    np.testing.assert_array_equal(found.classes, wanted.classes)
    traced = tf.function(several.top_k)(inputs, tf.constant(4))
    np.testing.assert_array_equal(traced.classes[:6], wanted.classes[0])
    listed = several.top_k(inputs[:6].numpy().tolist(), 4)
    np.testing.assert_array_equal(listed.classes, wanted.classes[0])
    wrong = tf.concat([inputs, inputs], -1)
    for ask in (several.log_probs, lambda x: several.top_k(x, 3)):
        with pytest.raises(ValueError, match=r"inputs must have the shape \["):
            ask(wrong)
    assert several.top_k(inputs[:0], 3).classes.shape == (0, 3)
    beam = several.top_k(inputs, 5, beam_width=1, return_pruned=True)
    exact = one.top_k(inputs, 5)
    for i in np.flatnonzero(beam.num_pruned == 0):
        np.testing.assert_array_equal(beam.classes[i], exact.classes[i])


@everywhere
def test_inputs_that_are_not_numbers(name, count):
    _, several, inputs = heads(name, count)
    inputs = tf.concat([inputs[:2], inputs[:1] * np.nan], 0)
    classes = several.predict_class(inputs).numpy()
    assert ((classes[:2] >= 0) & (classes[:2] < N)).all()
    for found in (classes, several.top_k(inputs, 9).classes.numpy()):
        assert (found[2] == -1).all()


@pytest.mark.parametrize(
    "sampling, traced",
    alternately_traced(
        [
            # Down the tree, from device to device.
            *((case, {"temperature": 0.7}) for case in CASES),
            (("huffman", 3), {}),
            # Draws from the best classes.
            (("huffman", 8), {"top_k": 6}),
            (("pinned", 3), {"top_p": 0.8}),
            (("pinned", 3), {"top_p": 0.8, "temperature": 0.5}),
            (("flat", 3), {"temperature": 0.0}),
            (("flat", 3), {"top_k": 9, "top_p": 0.6, "temperature": 1.5}),
        ]
    ),
)
def test_samples(sampling, traced):
    """As often as their probabilities say: a chi-square of each input."""
    case, options = sampling
    one, several, inputs = heads(*case)
    inputs, draws = inputs[:3], 4000
    classes = several.sample(inputs, draws, seed=(1, 2), **options).numpy()
    assert classes.shape == (3, draws)
    sample = tf.function(several.sample) if traced else several.sample
    again = sample(inputs, tf.constant(draws, tf.int64), seed=(1, 2), **options)
    np.testing.assert_array_equal(again, classes)
    all_probs = _probabilities(one, inputs, **options)
    for drawn, probs in zip(classes, all_probs, strict=True):
        assert probs[drawn].all()
        assert p_value(drawn, probs) > 1e-6


QUESTIONS = [
    lambda head, x: head.log_probs(x),
    lambda head, x: head.log_prob(tf.tile([[3, 59]], [tf.shape(x)[0], 1]), x),
    lambda head, x: tuple(head.top_k(x, 7)),
    lambda head, x: head.predict_class(x),
    lambda head, x: head.sample(x, 5, seed=3, top_k=1),
]


def draws(head, x):
    """Returns five draws for each input."""
    return head.sample(x, 5, seed=3)


def test_of_tails_on_devices():
    one, several = spread_heads.pair("three", None, CPUS[3:0:-2])
    inputs = np.random.default_rng(0).normal(size=(BATCH, WIDTH))
    for question in (*QUESTIONS, draws):
        assert_near(question(several, inputs), question(one, inputs), 1e-12)


def test_one_device_at_a_time():
    """A copy on one device answers as well, to the same bits."""
    one, several, inputs = heads("pinned", 3)
    with several.on_one_device():
        found = several.top_k(inputs, 3, allowed=[5, 9, 30, 41])
    assert_same(found, one.top_k(inputs, 3, allowed=[5, 9, 30, 41]))


@pytest.mark.parametrize("name", ["huffman", "three"])
def test_over_replicas(name):
    """From outside the strategy, from its scope, and from replicas."""
    one, several = spread_heads.pair(name, "sgd", 2)
    questions = QUESTIONS
    if name == "three":
        # The numbers that are drawn depend on the plan of a tree.
        questions = [*questions, draws]

    def ask(head, x):
        return [question(head, x) for question in questions]

    inputs = np.random.default_rng(0).normal(size=(BATCH, WIDTH))
    # As the replicas split them: draws are by the place in a part.
    parts = np.split(inputs, [spread_heads.SIZES[2][0]])
    assert_near(ask(several, parts[0]), ask(one, parts[0]), 1e-12)
    with spread_heads.scope_of(2):
        assert_near(ask(several, parts[0]), ask(one, parts[0]), 1e-12)
    found = spread_heads.runner(functools.partial(ask, several), 2)(inputs)
    wanted = tf.nest.map_structure(
        lambda *x: np.concatenate(x), *(ask(one, part) for part in parts)
    )
    assert_near(found, wanted, 1e-12)


def _probabilities(head, inputs, temperature=1.0, top_k=None, top_p=None):
    if top_k is None and top_p is None and temperature:
        # Every group's logits are divided.
        cooled = HierarchicalSoftmax(head.tree, dtype="float64")
        cooled.build([None, WIDTH])
        cooled.kernel.assign(head.kernel / temperature)
        cooled.bias.assign(head.bias / temperature)
        return np.exp(cooled.log_probs(inputs))
    probs = np.exp(head.log_probs(inputs))
    for p in probs:
        order = np.argsort(-p, kind="stable")
        p[order[top_k or N :]] = 0
        p[:] = (p / p.max()) ** (1 / max(temperature, 1e-9))
        p /= p.sum()
        if top_p is not None:
            before = np.cumsum(p[order]) - p[order]
            p[order[before >= top_p]] = 0
            p /= p.sum()
    return probs
