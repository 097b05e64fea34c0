"""Heads on several devices with weights in 8 or 4 bits."""

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
from tf_hsm import distribute
from tf_hsm.layers import AdaptiveSoftmax, HierarchicalSoftmax
from tf_hsm.runtime import quantized_rows

N, BATCH = heads.N, 18
MODES = ["int8", "int4"]
POLICIES = {"int8": "int8_from_float32", "int4": "int4/64_from_float32"}
# All rows of "flat" are in the top, and shards have none.
TREES = {
    name: heads.TREES[name]
    for name in ("huffman", "pinned", "two_level", "chain", "flat")
}
RNG = np.random.default_rng(0)
LABELS = RNG.integers(N, size=BATCH)
DEVICES = CPUS[:4]


def inputs(width):
    return np.random.default_rng(1).normal(size=[BATCH, width]).astype("f4")


@functools.cache
def plan_of(name, count):
    return distribute.plan(TREES[name](), CPUS[:count], top=8)


def built(tree, width=65, **options):
    head = HierarchicalSoftmax(tree, **options)
    head.build([None, width])
    return head


@functools.cache
def quantized(name, count, mode, width):
    """A quantized head on devices, and the same head on one device."""
    plan = plan_of(name, count)
    one = built(
        plan.tree,
        width,
        kernel_initializer=keras.initializers.RandomNormal(seed=1),
        bias_initializer=keras.initializers.RandomNormal(seed=2),
    )
    several = built(plan.tree, width, plan=plan)
    distribute.copy_weights(one, several)
    for head in (one, several):
        head.quantize(mode)
    return several, one


def decoded(head):
    """A head of floats on the same devices, with the numbers of the codes."""
    floats = built(head.plan.tree, head.kernel.width, plan=head.plan)
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


def assert_same_bits(found, wanted):
    tf.nest.map_structure(np.testing.assert_array_equal, found, wanted)


@pytest.mark.parametrize(
    "name, count, mode, width, traced",
    all_pairs(list(TREES), [1, 4], MODES, [65, 130], [False, True]),
)
def test_answers_are_the_answers_of_one_device(
    name, count, mode, width, traced
):
    """The bits of one device; draws are draws of the decoded rows.

    A graph has every other answer: with all of them it would be large.
    """
    several, one = quantized(name, count, mode, width)
    floats, x = decoded(several), inputs(width)

    asks = [*ANSWERS.values()]
    if traced:
        asks = asks[count == 1 :: 2]

    def answers(head, x):
        return [ask(head, x) for ask in asks]

    asked = functools.partial(answers, several)
    found = (tf.function(asked) if traced else asked)(x)
    assert_same_bits(found, answers(one, x))
    assert_same_bits(found, answers(floats, x))
    # The losses of floats too have other sums than on one device.
    np.testing.assert_allclose(several(x, LABELS), one(x, LABELS), rtol=1e-6)
    for options in DRAWS.values():
        drawn = several.sample(x, 50, seed=(3, 4), **options)
        assert_same_bits(drawn, floats.sample(x, 50, seed=(3, 4), **options))


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("width", [1, 2, 63, 64, 65, 127, 129, 200])
def test_a_graph_decodes_the_numbers_of_the_codes(mode, width):
    weights = np.random.default_rng(2).normal(size=[9, width])
    rows = tf_hsm.quantize_rows(weights, mode)
    found = tf.function(quantized_rows.tensor)(rows)
    assert found.shape == [9, width]
    assert_same_bits(found, rows.numpy())


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
    head = built(TREES["two_level"](), devices=DEVICES, optimizer=optimizer)
    head(inputs(65))
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


def trained(optimizer=None, width=65, **options):
    """A model whose head is on devices, after a few steps."""
    head = HierarchicalSoftmax(
        TREES["two_level"](), optimizer=optimizer, **options
    )
    model = keras.Sequential(
        [keras.Input([width]), keras.layers.Dense(width), head]
    )
    metrics = [tf_hsm.metrics.Perplexity(head)]
    model.compile("adam", loss=head.loss, metrics=metrics, run_eagerly=True)
    model.fit(inputs(width), LABELS, epochs=2, verbose=0)
    return model, head


def compiled(model):
    head = model.layers[-1]
    metrics = [tf_hsm.metrics.Perplexity(head)]
    model.compile(loss=head.loss, metrics=metrics, run_eagerly=True)
    return model


@pytest.mark.parametrize(
    "mode, optimizer", [("int8", None), ("int4", "rowwise_adagrad")]
)
def test_files(mode, optimizer, tmp_path):
    """Any devices, or one, load what others saved, with the same bits."""
    model, head = trained(optimizer, devices=CPUS[:3])
    model.quantize(mode, filters=lambda layer: layer is head)
    x = inputs(65)
    hidden = model.layers[0](x)
    wanted, best = head.log_probs(hidden), head.predict_class(hidden)
    results = compiled(model).evaluate(x, LABELS, verbose=0)
    np.testing.assert_allclose(
        results[0],
        -wanted.numpy()[np.arange(BATCH), LABELS].mean(dtype="f8"),
        rtol=1e-6,
    )
    assert results[1] == pytest.approx(np.exp(results[0]), rel=1e-5)

    model.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    assert_same_bits(loaded.layers[-1].log_probs(hidden), wanted)
    found = loaded.layers[-1].predict_class(loaded.predict(x, verbose=0))
    assert_same_bits(found, best)
    assert_same_bits(loaded.evaluate(x, LABELS, verbose=0), results)

    model.save_weights(tmp_path / "model.weights.h5")
    for devices in (None, CPUS[4:6]):
        other = HierarchicalSoftmax(
            head.tree, devices=devices, dtype=POLICIES[mode]
        )
        others = keras.Sequential([keras.Input([65]), model.layers[0], other])
        others.load_weights(tmp_path / "model.weights.h5")
        assert_same_bits(other.log_probs(hidden), wanted)
        one = built(head.tree, dtype=POLICIES[mode])
        distribute.copy_weights(other, one)
        assert_same_bits(one.log_probs(hidden), wanted)

    path = tf.train.Checkpoint(head=head).save(tmp_path / "plain")
    other = built(head.tree, plan=head.plan, dtype=POLICIES[mode])
    found = tf.train.Checkpoint(head=other).restore(path)
    found.assert_consumed()
    assert_same_bits(other.log_probs(hidden), wanted)
    names = [name for name, _ in tf.train.list_variables(path)]
    assert not any("optimizer" in name for name in names)

    path = distribute.checkpoint(head).save(tmp_path / "by_device")
    for count in (1, 5):
        plan = head.plan.on([CPUS[i % count] for i in range(3)])
        other = built(head.tree, plan=plan, dtype=POLICIES[mode])
        distribute.checkpoint(other).restore(path).assert_consumed()
        assert_same_bits(other.log_probs(hidden), wanted)

    tf_hsm.serving.export(model, str(tmp_path / "served"), k=4)
    served = tf.saved_model.load(str(tmp_path / "served"))
    found = served.signatures["serving_default"](inputs=x)
    assert_same_bits(found["classes"], head.top_k(hidden, 4).classes)
    assert_same_bits(found["log_probs"], head.top_k(hidden, 4).log_probs)
    size = sum(
        f.stat().st_size for f in (tmp_path / "served/variables").iterdir()
    )
    assert size < 65 * 65 * 4 + head.tree.num_rows * 65 * 1.2 + 20_000
    assert_same_bits(head.log_probs(hidden), wanted)


def test_a_head_of_floats_takes_no_codes(tmp_path):
    several, _ = quantized("two_level", 2, "int8", 65)
    floats = built(several.tree, plan=several.plan)
    with pytest.raises(ValueError, match="have int8 and None"):
        distribute.copy_weights(several, floats)
    path = distribute.checkpoint(several).save(tmp_path / "codes")
    with pytest.raises(AssertionError):
        distribute.checkpoint(floats).restore(path).assert_consumed()
    store = {}
    several.save_own_variables(store)
    with pytest.raises(ValueError, match=r"3 variables, but there are 2"):
        floats.load_own_variables(store)


@pytest.mark.parametrize("mode", MODES)
def test_keras_quantizes_the_model(mode):
    model, head = trained("sgd", devices=DEVICES)
    model.run_eagerly = False
    model.predict(inputs(65), verbose=0)  # a graph with the old weights
    model.quantize(mode)
    assert head.quantization_mode == model.layers[0].quantization_mode == mode
    assert head.optimizer is None
    assert isinstance(head.kernel, tf_hsm.QuantizedRows)
    assert all(isinstance(k, tf_hsm.QuantizedRows) for k in head.shard_kernels)
    assert not any(v.name.endswith("kernel") for v in head.variables)
    found = model.predict(inputs(65), verbose=0)
    assert_same_bits(found, model.layers[0](inputs(65)))


def test_training_is_refused():
    model, head = trained(devices=DEVICES)
    model.quantize("int8", filters=lambda layer: layer is head)
    model.compile("adam", loss=head.loss)
    with pytest.raises(ValueError, match="quantized and cannot train"):
        model.fit(inputs(65), LABELS, verbose=0)
    with (
        tf.GradientTape(),
        pytest.raises(ValueError, match="quantized and cannot train"),
    ):
        head.loss(LABELS, head(inputs(65)))


def test_other_refusals():
    several, _ = quantized("two_level", 2, "int8", 65)
    with pytest.raises(ValueError, match="already quantized"):
        several.quantize("int4")
    with pytest.raises(ValueError, match="rescore is not possible"):
        several.top_k(inputs(65), 3, rescore=10)
    with pytest.raises(ValueError, match="regroup is not possible"):
        several.regroup(several.tree)
    with pytest.raises(ValueError, match="several devices"):
        several.grow(several.tree.grow(["a"]))
    with pytest.raises(NotImplementedError, match="float8"):
        built(TREES["two_level"](), devices=DEVICES).quantize("float8")
    wide = built(TREES["two_level"](), devices=DEVICES, dtype="float64")
    with pytest.raises(NotImplementedError, match="must be float32"):
        wide.quantize("int8")
    tree = TREES["two_level"]()
    for head in (
        HierarchicalSoftmax(tree, devices=["GPU:0"], dtype=POLICIES["int8"]),
        AdaptiveSoftmax(N, devices=["GPU:0"], dtype=POLICIES["int8"]),
    ):
        with pytest.raises(ValueError, match="GPU:0; they must be CPUs"):
            head.build([None, 65])
    head = HierarchicalSoftmax(
        tree, devices=["nowhere"], dtype=POLICIES["int8"]
    )
    with pytest.raises(ValueError, match="'nowhere' is not there"):
        head.build([None, 65])


def test_an_error_changes_nothing():
    model, head = trained("sgd", devices=DEVICES)
    kernel = head.shard_kernels[-1]
    rows = kernel.numpy()
    bad = rows.copy()
    bad[-1, -1] = np.inf
    kernel.assign(bad)
    names = [v.path for v in head.variables]
    with pytest.raises(ValueError, match="finite"):
        head.quantize("int8")
    assert head.quantization_mode is None and head.optimizer is not None
    assert [v.path for v in head.variables] == names
    kernel.assign(rows)
    model.fit(inputs(65), LABELS, verbose=0)
    head.quantize("int8")


@pytest.mark.parametrize(
    "mode, options", [("int8", {}), ("int4", {"use_bias": "head"})]
)
def test_an_adaptive_softmax(mode, options, tmp_path):
    """Tails on devices: the answers and files of one device."""
    models, x = [], inputs(33)
    for devices in (["CPU:3", "CPU:1"], None):
        keras.utils.set_random_seed(0)
        head = AdaptiveSoftmax(
            N,
            cutoffs=[10, 20, 40],
            div_value=2,
            tail=["flat", "two_level", 2],
            devices=devices,
            optimizer="sgd",
            **options,
        )
        models.append(keras.Sequential([keras.Input([33]), head]))
    (several,), (one,) = (model.layers for model in models)
    one.set_weights(several.get_weights())
    for model in models:
        model.quantize(mode)
        compiled(model)
    on = [k.codes.value.device[-5:] for k in several.tail_kernels]
    assert on == ["CPU:3", "CPU:1", "CPU:3"]
    answers = {k: v for k, v in ANSWERS.items() if k != "nodes"}
    for ask in answers.values():
        assert_same_bits(ask(several, x), ask(one, x))
    for draws in DRAWS.values():
        assert_same_bits(
            *(h.sample(x, 9, seed=5, **draws) for h in (one, several))
        )
    np.testing.assert_allclose(several(x, LABELS), one(x, LABELS), rtol=1e-6)
    wanted = one.log_probs(x)

    models[0].save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    assert_same_bits(loaded.layers[-1].log_probs(x), wanted)
    models[0].save_weights(tmp_path / "model.weights.h5")
    config = {**several.get_config(), "devices": None}
    other = AdaptiveSoftmax.from_config(config)
    keras.Sequential([keras.Input([33]), other]).load_weights(
        tmp_path / "model.weights.h5"
    )
    assert_same_bits(other.log_probs(x), wanted)
    path = distribute.checkpoint(several).save(tmp_path / "by_device")
    other = AdaptiveSoftmax.from_config({**config, "devices": CPUS[:2]})
    other.build([None, 33])
    distribute.checkpoint(other).restore(path).assert_consumed()
    assert_same_bits(other.log_probs(x), wanted)
    tf_hsm.serving.export(models[0], str(tmp_path / "served"), k=4)
    served = tf.saved_model.load(str(tmp_path / "served"))
    found = served.signatures["serving_default"](inputs=x)
    assert_same_bits(found["classes"], one.top_k(x, 4).classes)
    with pytest.raises(ValueError, match="quantized and cannot train"):
        models[0].fit(x, LABELS, verbose=0)
