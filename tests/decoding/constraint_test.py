"""Decoders that may only emit the codes of items, against brute force."""

import functools

import numpy as np
import pytest
import tensorflow as tf

from tests.support import decoding_reference as reference
from tests.support import inference_reference
from tests.support.decoding_models import (
    Recurrent,
    as_pairs,
    assert_same,
    make_head,
    reference_model,
)
from tests.support.tries import padded, random_paths
from tf_hsm import Tree
from tf_hsm.decoding import Sampler, Trie, beam_search

NUM_CODES = 6
PATHS = random_paths(0, num_items=40, num_codes=NUM_CODES, depth=4)
ALLOWED = np.random.default_rng(5).choice(len(PATHS), 15, replace=False)
HEADS = {
    "flat": lambda: make_head(Tree.flat(NUM_CODES), dtype="float64"),
    "tree": lambda: make_head(
        Tree.huffman([5, 1, 1, 2, 3, 1]), dtype="float64"
    ),
}


@functools.cache
def trie():
    return Trie(padded(PATHS))


def wanted_items(model, paths, length_penalty=0.0, exclude=()):
    """All items with their log-probabilities, best first."""
    pairs = [
        (path, sum(model(path[:i])[c] for i, c in enumerate(path)))
        for path in paths
        if not set(path) & set(exclude)
    ]
    return sorted(pairs, key=lambda h: -reference.score(h, length_penalty))


@pytest.mark.parametrize(
    "options",
    [{}, {"length_penalty": 0.8}, {"exclude": [2, 4]}, {"allowed": ALLOWED}],
    ids=str,
)
@pytest.mark.parametrize("name", HEADS)
def test_is_brute_force_where_nothing_is_left_out(name, options):
    """Every item of every entry, in order, and nothing else."""
    recurrent, head = Recurrent(NUM_CODES, batch=2), HEADS[name]()
    width = len(PATHS) + 3
    found = beam_search(
        *recurrent.with_head(head),
        beam_width=width,
        length=5,
        start=[3, 1],
        constraint=trie(),
        **options,
    )
    options = dict(options)
    paths = [PATHS[i] for i in options.pop("allowed", range(len(PATHS)))]
    for entry, start in enumerate((3, 1)):
        model = reference_model(recurrent, head, entry, start)
        wanted = wanted_items(model, paths, **options)
        assert len(wanted) > 5
        assert_same(as_pairs(found, entry), wanted)
        items = trie().items(found.classes[entry]).numpy()
        assert [PATHS[i] for i in items[: len(wanted)]] == [
            path for path, _ in wanted
        ]
        assert (items[len(wanted) :] == -1).all()


def test_none_of_100_000_draws_is_invalid():
    """Items by their probabilities, each code drawn among those that exist."""
    recurrent, head = Recurrent(NUM_CODES), HEADS["flat"]()
    found = Sampler(seed=1)(
        *recurrent.with_head(head, 100_000),
        length=trie().depth,
        constraint=trie(),
        allowed=ALLOWED,
    )
    # Without the trie: a set of tuples.
    numbers = {PATHS[i]: place for place, i in enumerate(ALLOWED)}
    drawn = np.array(
        [
            numbers.get(tuple(row[:length]), -1)
            for row, length in zip(
                found.classes.numpy().tolist(),
                found.lengths.numpy().tolist(),
                strict=True,
            )
        ]
    )
    assert np.count_nonzero(drawn < 0) == 0
    model = reference_model(recurrent, head)
    log_probs = np.zeros(len(ALLOWED))
    shares = np.zeros(len(ALLOWED))
    allowed = [PATHS[i] for i in ALLOWED]
    for path, place in numbers.items():
        for i, c in enumerate(path):
            following = {p[i] for p in allowed if p[:i] == path[:i]}
            total = np.logaddexp.reduce([model(path[:i])[f] for f in following])
            log_probs[place] += model(path[:i])[c]
            shares[place] += model(path[:i])[c] - total
    assert inference_reference.p_value(drawn, np.exp(shares)) > 1e-4
    np.testing.assert_allclose(found.log_probs, log_probs[drawn], rtol=1e-9)


@pytest.mark.parametrize("options", [{"top_k": 1}, {"temperature": 0}])
def test_greedy_is_a_beam_of_one(options):
    recurrent, head = Recurrent(NUM_CODES, batch=3), HEADS["tree"]()
    arguments = recurrent.with_head(head)
    constrained = {"length": 4, "constraint": trie(), "allowed": ALLOWED}
    drawn = Sampler(**options, seed=1)(*arguments, **constrained)
    constrained["allowed"] = trie().mask(ALLOWED)
    beam = beam_search(*arguments, beam_width=1, **constrained)
    np.testing.assert_array_equal(drawn.classes, beam.classes[:, 0])
    np.testing.assert_allclose(drawn.log_probs, beam.log_probs[:, 0])
    assert drawn.lengths.numpy().min() < 4


@pytest.mark.parametrize("as_list", [False, True])
def test_each_entry_has_its_own_items(as_list):
    """An entry finds and draws what it does when it is alone."""
    recurrent, head = Recurrent(NUM_CODES, batch=3), HEADS["flat"]()
    rng = np.random.default_rng(3)
    lists = [rng.permutation(len(PATHS))[:count] for count in (7, 1, 12)]
    allowed = np.full([3, 14], -1)
    for row, its in zip(allowed, lists, strict=True):
        row[: its.size] = its
    if not as_list:
        allowed = np.stack([np.isin(np.arange(len(PATHS)), x) for x in lists])
    constrained = {"length": 4, "constraint": trie(), "allowed": allowed}
    arguments = recurrent.with_head(head)
    found = beam_search(*arguments, beam_width=15, **constrained)
    for entry, its in enumerate(lists):
        model = reference_model(recurrent, head, entry)
        wanted = wanted_items(model, [PATHS[i] for i in its])
        assert_same(as_pairs(found, entry), wanted)
    constrained["allowed"] = trie().mask(np.repeat(allowed, 200, 0))
    arguments = recurrent.with_head(head, 200)
    drawn = Sampler(seed=1)(*arguments, **constrained)
    items = trie().items(drawn.classes).numpy().reshape(3, 200)
    for row, its in zip(items, lists, strict=True):
        assert set(row) <= set(its)
    assert len(set(items[2])) > 1


@pytest.mark.parametrize("as_list", [False, True])
def test_rows_that_are_not_those_of_the_batch_are_refused(as_list):
    recurrent, head = Recurrent(NUM_CODES, batch=3), HEADS["flat"]()
    allowed = np.zeros([2, 1], int) if as_list else np.ones([2, 40], bool)
    with pytest.raises(tf.errors.InvalidArgumentError, match="a row for each"):
        beam_search(
            *recurrent.with_head(head),
            beam_width=2,
            length=4,
            constraint=trie(),
            allowed=allowed,
        )


def test_where_nothing_is_allowed():
    """No hypothesis; a draw of nothing."""
    recurrent, head = Recurrent(NUM_CODES), HEADS["flat"]()
    arguments = recurrent.with_head(head)
    none = {
        "length": 4,
        "constraint": trie(),
        "allowed": np.zeros(len(PATHS), bool),
    }
    found = beam_search(*arguments, beam_width=3, **none)
    assert as_pairs(found) == []
    assert (trie().items(found.classes).numpy() == -1).all()
    drawn = Sampler(seed=1)(*arguments, **none)
    assert drawn.lengths.numpy().tolist() == [0]
    assert np.isnan(drawn.log_probs).all()


def test_in_a_saved_model(tmp_path):
    """A folder that finds items in stock, without the Python that made it."""
    recurrent = Recurrent(NUM_CODES, dtype="float32")
    module = tf.Module()
    module.head = head = make_head(Tree.flat(NUM_CODES))
    module.trie = trie()

    @tf.function(
        input_signature=[
            tf.TensorSpec([None], tf.int64),
            tf.TensorSpec([None], tf.bool),
        ]
    )
    def search(start, in_stock):
        constrained = {
            "length": module.trie.depth,
            "start": start,
            "constraint": module.trie,
            "allowed": in_stock,
        }
        arguments = recurrent.with_head(head, tf.size(start))
        found = beam_search(*arguments, beam_width=4, **constrained)
        drawn = Sampler(seed=3)(*arguments, **constrained)
        return {
            "found": module.trie.items(found.classes),
            "drawn": module.trie.items(drawn.classes),
        }

    module.search = search
    starts = tf.constant([4, 2, 5], tf.int64)
    in_stock = np.isin(np.arange(len(PATHS)), ALLOWED)
    wanted = search(starts, in_stock)
    assert search.experimental_get_tracing_count() == 1
    tf.saved_model.save(module, str(tmp_path))
    loaded = tf.saved_model.load(str(tmp_path))
    for answer in (loaded.search(starts, in_stock), wanted):
        assert set(answer["found"].numpy().ravel()) <= set(ALLOWED)
        for name, value in wanted.items():
            np.testing.assert_array_equal(answer[name], value)


def test_codes_that_are_none():
    """Large ones are not taken for others by a narrower type."""
    trie = Trie([[1, 2], [1, 3]])
    paths = np.array([[1, 3], [2**32 + 1, 3], [1, 3 - 2**32], [7, 3]])
    assert trie.items(paths).numpy().tolist() == [1, -1, -1, -1]
