"""Heads on devices and replicas with weights in 8 or 4 bits."""

import functools
import gc
import weakref

import keras
import numpy as np
import pytest
import tensorflow as tf

import tf_hsm
from tests.support import spread_heads as heads
from tests.support.devices import CPUS
from tests.support.pairs import all_pairs
from tests.support.training import assert_same
from tf_hsm import distribute
from tf_hsm.layers import AdaptiveSoftmax, HierarchicalSoftmax
from tf_hsm.runtime.replicas import copies_of

N, WIDTH, BATCH = heads.N, 65, 16
POLICIES = {"int8": "int8_from_float32", "int4": "int4/64_from_float32"}
# All rows of "flat" are in the top, and shards have none.
TREES = ["huffman", "pinned", "two_level", "chain", "flat"]
LABELS = np.random.default_rng(0).integers(N, size=BATCH)
DEVICES = CPUS[:4]


def inputs(width=WIDTH):
    return np.random.default_rng(1).normal(size=[BATCH, width]).astype("f4")


def make_head(name, place=None, rule=None, width=WIDTH, **options):
    """A built head of floats; over replicas it needs an optimizer."""
    options = {"dtype": "float32", "width": width, **options}
    return heads.make_head(name, rule, place, **options)


def pair(name, place, width=WIDTH, **options):
    """A head at a place, and the same head on one device."""
    rule = "sgd" if heads.has_strategy(place) else None
    several = make_head(name, place, rule, width, **options)
    one = make_head(name, None, rule, width, **options)
    rng = np.random.default_rng(2)
    for variable in one.row_variables():
        variable.assign(0.1 * rng.normal(size=variable.shape))
    several.load_own_variables(heads.saved(one))
    return several, one


@functools.cache
def quantized(name, count, mode, width):
    """A quantized head of a tree on devices, and the same one on one device."""
    several, one = pair(name, CPUS[:count], width)
    for head in (one, several):
        head.quantize(mode)
    return several, one


def decoded(head, name):
    """A head of floats on the same devices, with the numbers of the codes."""
    floats = make_head(name, head.plan.devices, width=head.kernel.width)
    pairs = zip(floats._head.tree_heads(), head._head.tree_heads(), strict=True)
    for new, old in pairs:
        new.weights.assign(old.weights.numpy())
        new.biases.assign(old.biases)
    return floats


ANSWERS = {
    "log_probs": lambda head, x: head.log_probs(x),
    "nodes": lambda head, x: head.log_probs(x, nodes=True),
    "log_prob": lambda head, x: head.log_prob(LABELS[:, np.newaxis], x),
    "top_k": lambda head, x: head.top_k(x, 7),
    "all": lambda head, x: head.top_k(x, N),
    "threshold": lambda head, x: head.top_k(x, 5, threshold=0.05),
    "allowed": lambda head, x: head.top_k(
        x, 3, allowed=[5, 9, 40, 41], renormalize=True
    ),
    "predict": lambda head, x: head.predict_class(x),
    "best_draws": lambda head, x: head.sample(x, 4, seed=(1, 2), top_k=1),
}
DRAWS = {
    "draws": {},
    "cold": {"temperature": 0.5},
    "top_k": {"top_k": 9},
    "top_p": {"top_p": 0.7},
    "allowed": {"allowed": [5, 9, 40, 41]},
}


@pytest.mark.parametrize(
    "name, count, mode, width, traced",
    all_pairs(TREES, [1, 4], [*POLICIES], [65, 130], [False, True]),
)
def test_trees_on_devices(name, count, mode, width, traced):
    """The bits of one device; draws are draws of the decoded rows.

    A graph has every other answer: with all of them it would be large.
    """
    several, one = quantized(name, count, mode, width)
    floats, x = decoded(several, name), inputs(width)
    asks = [*ANSWERS.values()][count == 1 :: 2 if traced else 1]

    def answers(head, x):
        return [ask(head, x) for ask in asks]

    asked = functools.partial(answers, several)
    found = (tf.function(asked) if traced else asked)(x)
    assert_same(found, answers(one, x))
    assert_same(found, answers(floats, x))
    # The losses of floats too have other sums than on one device.
    np.testing.assert_allclose(several(x, LABELS), one(x, LABELS), rtol=1e-6)
    for options in DRAWS.values():
        drawn = several.sample(x, 50, seed=(3, 4), **options)
        assert_same(drawn, floats.sample(x, 50, seed=(3, 4), **options))


@pytest.mark.parametrize("mode, use_bias", [("int8", True), ("int4", "head")])
def test_tails_on_devices(mode, use_bias):
    place = ["CPU:3", "CPU:1"]
    several, one = pair("three", place, width=33, use_bias=use_bias)
    for head in (several, one):
        head.quantize(mode)
    on = [k.codes.value.device[-5:] for k in several.tail_kernels]
    assert on == ["CPU:3", "CPU:1", "CPU:3"]
    x = inputs(33)
    for name, ask in ANSWERS.items():
        if name != "nodes":
            assert_same(ask(several, x), ask(one, x))
    for draws in DRAWS.values():
        assert_same(*(h.sample(x, 9, seed=5, **draws) for h in (one, several)))
    np.testing.assert_allclose(several(x, LABELS), one(x, LABELS), rtol=1e-6)


@pytest.mark.parametrize(
    "name, mode", [("huffman", "int8"), ("three", "int4"), (None, "int4")]
)
def test_over_replicas(name, mode):
    """Answers outside and inside of replicas, and losses."""
    if name is None:  # A head without parts, which every replica copies.
        with heads.strategy_of(2).scope():
            several = make_head("huffman")
        one = make_head("huffman", seed=1)
        one.load_own_variables(heads.saved(several))
    else:
        several, one = pair(name, 2)
    for head in (several, one):
        head.quantize(mode)
    check_copies(several)
    x = inputs()
    for name in ("log_probs", "top_k", "predict"):
        assert_same(ANSWERS[name](several, x), ANSWERS[name](one, x))
    strategy = heads.strategy_of(2)

    def ask(head):
        of_labels = head.log_prob(LABELS[:, np.newaxis], x)
        return [*head.top_k(x, 3), of_labels, head(x, LABELS)]

    found = tf.function(lambda: strategy.run(ask, (several,)))()
    copies = map(strategy.experimental_local_results, found)
    *wanted, wanted_losses = ask(one)
    for *of_replica, losses in zip(*copies, strict=True):
        assert_same(of_replica, wanted)
        np.testing.assert_allclose(losses, wanted_losses, rtol=1e-6)


def check_copies(head):
    """Each replica has a copy of the codes of the top or the shortlist."""
    rows = head._head.tree_heads()[0].weights
    for variable in (rows.codes, rows.scales):
        first, *others = copies_of(variable)
        assert others
        assert_same(others, [first] * len(others))


def test_codes_lie_on_the_devices_of_the_shards():
    several, _ = quantized("huffman", 4, "int4", 65)
    with_rows = [s for s in several.plan.shards if s.num_units]
    assert len(with_rows) == 4
    for shard, kernel in zip(with_rows, several.shard_kernels, strict=True):
        assert kernel.shape == [several.plan.weight_rows_of(shard).size, 65]
        for variable in (kernel.codes, kernel.scales):
            assert variable.value.device.endswith(shard.device)
    flat, _ = quantized("flat", 4, "int4", 65)
    assert flat.kernel.shape == [N, 65]
    assert flat.shard_kernels == [None] * 4


@pytest.mark.parametrize("optimizer", [None, "lazy_adam"])
def test_the_floats_of_a_shard_go_before_the_next_codes_come(
    optimizer, monkeypatch
):
    head = make_head("two_level", DEVICES, optimizer)
    head(inputs())
    floats = [weakref.ref(v.weights.value) for v in head._head.tree_heads()]
    counts, assign = [], tf_hsm.QuantizedRows.assign

    def counted(rows, weights):
        assign(rows, weights)
        gc.collect()
        counts.append(sum(ref() is not None for ref in floats))

    monkeypatch.setattr(tf_hsm.QuantizedRows, "assign", counted)
    head.quantize("int8")
    gc.collect()
    assert counts == [5, 4, 3, 2, 1]
    assert not any(ref() is not None for ref in floats)


def compiled(head, place=None):
    """A model of a head."""
    with heads.scope_of(place):
        model = keras.Sequential([keras.Input([WIDTH]), head])
        perplexity = tf_hsm.metrics.Perplexity(head)
        model.compile("sgd", head.loss, metrics=[perplexity])
    model.run_eagerly = not heads.has_strategy(place)
    return model


def evaluated(model, place=None):
    """The loss and the perplexity of a compiled model's head."""
    model = compiled(model.layers[0], place)
    return model.evaluate(inputs(), LABELS, batch_size=8, verbose=0)


@pytest.mark.parametrize(
    "name, place, rule, mode, in_scope",
    [
        ("two_level", CPUS[:3], None, "int8", False),
        ("two_level", CPUS[:3], "rowwise_adagrad", "int4", False),
        ("three", ["CPU:3", "CPU:1"], "sgd", "int4", False),
        ("huffman", 2, "rowwise_adagrad", "int8", True),
        ("three", 2, "rowwise_adagrad", "int4", False),
    ],
)
def test_files(name, place, rule, mode, in_scope, tmp_path):
    """Any place loads what others saved, with the same bits."""
    x, model = inputs(), compiled(make_head(name, place, rule), place)
    (head,) = model.layers
    model.fit(x, LABELS, verbose=0)
    with heads.scope_of(place if in_scope else None):
        model.quantize(mode)
    assert head.quantization_mode == mode and head.optimizer is None
    with pytest.raises(ValueError, match="already quantized"):
        head.quantize(mode)
    wanted, results = head.log_probs(x), evaluated(model, place)
    of_labels = wanted.numpy()[np.arange(BATCH), LABELS]
    np.testing.assert_allclose(results[0], -of_labels.mean(), rtol=1e-6)
    assert results[1] == pytest.approx(np.exp(results[0]), rel=1e-5)

    model.save(tmp_path / "model.keras")
    for other in (4, 2, None) if heads.has_strategy(place) else (None,):
        with heads.scope_of(other):
            loaded = keras.models.load_model(tmp_path / "model.keras")
        if other:
            check_copies(loaded.layers[0])
        assert_same(loaded.layers[0].log_probs(x), wanted)
        np.testing.assert_allclose(evaluated(loaded, other), results, rtol=1e-6)

    def another(place):
        return make_head(name, place, dtype=POLICIES[mode])

    model.save_weights(tmp_path / "model.weights.h5")
    path = distribute.checkpoint(head).save(tmp_path / "by_device")
    for other in (None, CPUS[4:6], CPUS[:1] * 3, 2):
        loaded = another(other)
        keras.Sequential([keras.Input([WIDTH]), loaded]).load_weights(
            tmp_path / "model.weights.h5"
        )
        assert_same(loaded.log_probs(x), wanted)
        if name != "three":
            copy = another(None)
            distribute.copy_weights(loaded, copy)
            assert_same(copy.log_probs(x), wanted)
            if other is None:
                continue  # It has another kind of checkpoint.
        loaded = another(other)
        distribute.checkpoint(loaded).restore(path).assert_consumed()
        assert_same(loaded.log_probs(x), wanted)

    path = tf.train.Checkpoint(head=head).save(tmp_path / "plain")
    loaded = another(place)
    tf.train.Checkpoint(head=loaded).restore(path).assert_consumed()
    assert_same(loaded.log_probs(x), wanted)
    names = [name for name, _ in tf.train.list_variables(path)]
    assert not any("optimizer" in name for name in names)

    tf_hsm.serving.export(model, str(tmp_path / "served"), k=4)
    served = tf.saved_model.load(str(tmp_path / "served"))
    found = served.signatures["serving_default"](inputs=x)
    assert_same([found["log_probs"], found["classes"]], head.top_k(x, 4))
    variables = (tmp_path / "served/variables").iterdir()
    rows = sum(h.tree.num_rows for h in head._head.tree_heads())
    assert sum(f.stat().st_size for f in variables) < rows * 65 * 1.2 + 25_000
    assert_same(head.log_probs(x), wanted)


def test_a_head_of_floats_takes_no_codes(tmp_path):
    several, _ = quantized("two_level", 2, "int8", 65)
    floats = make_head("two_level", CPUS[:2])
    with pytest.raises(ValueError, match="have int8 and None"):
        distribute.copy_weights(several, floats)
    path = distribute.checkpoint(several).save(tmp_path / "codes")
    with pytest.raises(AssertionError):
        distribute.checkpoint(floats).restore(path).assert_consumed()
    with pytest.raises(ValueError, match=r"3 variables, but there are 2"):
        floats.load_own_variables(heads.saved(several))


@pytest.mark.parametrize(
    "name, place, rule",
    [
        ("two_level", DEVICES, None),
        ("three", DEVICES, "sgd"),
        ("huffman", 2, "sgd"),
    ],
)
def test_training_is_refused(name, place, rule):
    """In `fit`, under a tape, and in a function that a strategy runs."""
    head = make_head(name, place, rule)
    head.quantize("int8")
    model = compiled(head, place)

    def of_replica():
        with tf.GradientTape():
            return head(inputs(), LABELS)

    refused = pytest.raises(ValueError, match="quantized and cannot train")
    with refused:
        model.fit(inputs(), LABELS, verbose=0)
    with refused:
        heads.runner(of_replica, place)()


def test_workers_are_refused(monkeypatch):
    """A process that has the first of two replicas alone."""
    here = "tf_hsm.layers.{}.replicas_here"
    with monkeypatch.context() as patch:
        patch.setattr(here.format("hierarchical_softmax"), lambda: CPUS[:1])
        head = make_head("huffman", 2, "sgd")
    assert head.shard_kernels[1] is None
    with pytest.raises(ValueError, match="other workers have shards"):
        head.quantize("int8")
    assert head.quantization_mode is None
    monkeypatch.setattr(here.format("replicated"), lambda: CPUS[:1])
    with pytest.raises(ValueError, match="int8 are for the replicas of one"):
        make_head("huffman", 2, dtype=POLICIES["int8"])


def test_other_refusals():
    several, _ = quantized("two_level", 2, "int8", 65)
    with pytest.raises(ValueError, match="rescore is not possible"):
        several.top_k(inputs(), 3, rescore=10)
    with pytest.raises(ValueError, match="regroup is not possible"):
        several.regroup(several.tree)
    with pytest.raises(ValueError, match="several devices"):
        several.grow(several.tree.grow(["a"]))
    with pytest.raises(NotImplementedError, match="float8"):
        make_head("two_level", DEVICES).quantize("float8")
    wide = make_head("two_level", DEVICES, dtype="float64")
    with pytest.raises(NotImplementedError, match="must be float32"):
        wide.quantize("int8")
    tree = heads.tree_named("two_level")
    for head, names, message in (
        (HierarchicalSoftmax, ["GPU:0"], "GPU:0; they must be CPUs"),
        (AdaptiveSoftmax, ["GPU:0"], "GPU:0; they must be CPUs"),
        (HierarchicalSoftmax, ["nowhere"], "'nowhere' is not there"),
    ):
        classes = N if head is AdaptiveSoftmax else tree
        made = head(classes, devices=names, dtype=POLICIES["int8"])
        with pytest.raises(ValueError, match=message):
            made.build([None, 65])


def test_an_error_changes_nothing():
    head = make_head("two_level", DEVICES, "sgd")
    kernel = head.shard_kernels[-1]
    rows = kernel.numpy()
    kernel.assign(rows + np.inf)
    names = [v.path for v in head.variables]
    with pytest.raises(ValueError, match="finite"):
        head.quantize("int8")
    assert head.quantization_mode is None and head.optimizer is not None
    assert [v.path for v in head.variables] == names
    kernel.assign(rows)
    compiled(head).fit(inputs(), LABELS, verbose=0)
    head.quantize("int8")
