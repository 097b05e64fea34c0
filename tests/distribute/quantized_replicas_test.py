"""Heads over the replicas of a strategy with weights in 8 or 4 bits."""

import keras
import numpy as np
import pytest
import tensorflow as tf

import tf_hsm
from tests.support import spread_heads as heads
from tests.support.devices import CPUS
from tf_hsm import distribute
from tf_hsm.layers import AdaptiveSoftmax, HierarchicalSoftmax
from tf_hsm.runtime.replicas import copies_of

N, WIDTH, COUNT = 60, 65, 2
RNG = np.random.default_rng(0)
X = RNG.normal(size=[16, WIDTH]).astype("f4")
LABELS = RNG.integers(N, size=16)
KINDS = {
    "tree": lambda **options: HierarchicalSoftmax(
        heads.tree_named("huffman"), **options
    ),
    "tails": lambda **options: AdaptiveSoftmax(
        N, cutoffs=[12, 30], div_value=2.0, **options
    ),
}


def model_of(head):
    model = keras.Sequential([keras.Input([WIDTH]), head])
    metrics = [tf_hsm.metrics.Perplexity(head)]
    model.compile("sgd", loss=head.loss, metrics=metrics)
    return model


def over_replicas(kind, count=COUNT, **options):
    """A model whose head is over replicas."""
    options = {"optimizer": "rowwise_adagrad", **options}
    with heads.strategy_of(count).scope():
        return model_of(KINDS[kind](devices="replicas", **options))


def assert_same_bits(found, wanted):
    tf.nest.map_structure(np.testing.assert_array_equal, found, wanted)


@pytest.mark.parametrize(
    "kind, mode, in_scope",
    [
        ("tree", "int8", True),
        ("tails", "int4", False),
    ],
)
def test_as_on_one_device(kind, mode, in_scope, tmp_path):
    """Answers outside and inside of replicas, evaluate, and files."""
    model = over_replicas(kind)
    model.fit(X, LABELS, verbose=0)
    one = model_of(KINDS[kind]())
    model.save_weights(tmp_path / "floats.weights.h5")
    one.load_weights(tmp_path / "floats.weights.h5")
    one.quantize(mode)
    (wanted,), (head,) = one.layers, model.layers
    strategy = heads.strategy_of(COUNT)
    if in_scope:
        with strategy.scope():
            model.quantize(mode)
    else:
        model.quantize(mode)
    assert head.quantization_mode == mode and head.optimizer is None
    check_copies(head)
    check_answers(model, one)
    check_losses(model, one)
    with pytest.raises(ValueError, match="already quantized"):
        head.quantize(mode)
    model.save(tmp_path / "model.keras")
    for scope in (heads.strategy_of(4).scope(), strategy.scope()):
        with scope:
            loaded = keras.models.load_model(tmp_path / "model.keras")
        check_copies(loaded.layers[0])
        assert_same_bits(loaded.layers[0].log_probs(X), wanted.log_probs(X))
    check_losses(loaded, one)
    loaded = keras.models.load_model(tmp_path / "model.keras")
    assert_same_bits(loaded.layers[0].log_probs(X), wanted.log_probs(X))
    model.save_weights(tmp_path / "codes.weights.h5")
    one.load_weights(tmp_path / "codes.weights.h5")
    assert_same_bits(head.log_probs(X), wanted.log_probs(X))
    path = distribute.checkpoint(head).save(tmp_path / "saved")
    other = over_replicas(kind, optimizer=None, dtype=head.dtype_policy)
    distribute.checkpoint(other.layers[0]).restore(path).assert_consumed()
    check_copies(other.layers[0])
    check_answers(other, one)
    tf_hsm.serving.export(model, str(tmp_path / "served"), k=4)
    served = tf.saved_model.load(str(tmp_path / "served"))
    found = served.signatures["serving_default"](inputs=X)
    assert_same_bits(found["classes"], wanted.top_k(X, 4).classes)


def check_copies(head):
    """Each replica has a copy of the codes of the top or the shortlist."""
    rows = head._head.tree_heads()[0].weights
    for variable in (rows.codes, rows.scales):
        first, *others = copies_of(variable)
        assert others
        for other in others:
            np.testing.assert_array_equal(first, other)


def check_answers(model, one):
    (head,), (wanted,) = model.layers, one.layers
    assert_same_bits(head.log_probs(X), wanted.log_probs(X))
    assert_same_bits(head.top_k(X, 5), wanted.top_k(X, 5))
    assert_same_bits(head.predict_class(X), wanted.predict_class(X))
    strategy = heads.strategy_of(COUNT)

    def ask(head):
        of_labels = head.log_prob(LABELS[:, np.newaxis], X)
        return [*head.top_k(X, 3), of_labels]

    found = tf.function(lambda: strategy.run(ask, (head,)))()
    copies = map(strategy.experimental_local_results, found)
    for of_replica in zip(*copies, strict=True):
        assert_same_bits(list(of_replica), ask(wanted))


def check_losses(model, one):
    (head,), (wanted,) = model.layers, one.layers
    metrics = [tf_hsm.metrics.Perplexity(wanted)]
    one.compile(loss=wanted.loss, metrics=metrics)
    with heads.strategy_of(COUNT).scope():
        metrics = [tf_hsm.metrics.Perplexity(head)]
        model.compile(loss=head.loss, metrics=metrics)
    np.testing.assert_allclose(
        model.evaluate(X, LABELS, batch_size=4, verbose=0),
        one.evaluate(X, LABELS, verbose=0),
        rtol=1e-6,
    )


def test_a_head_that_every_replica_copies(tmp_path):
    with heads.strategy_of(COUNT).scope():
        model = model_of(HierarchicalSoftmax(heads.tree_named("huffman")))
    one = model_of(HierarchicalSoftmax(heads.tree_named("huffman")))
    one.set_weights(model.get_weights())
    for copied in (model, one):
        copied.quantize("int4")
    check_copies(model.layers[0])
    check_answers(model, one)
    model.save(tmp_path / "model.keras")
    with heads.strategy_of(COUNT).scope():
        loaded = keras.models.load_model(tmp_path / "model.keras")
    check_copies(loaded.layers[0])
    check_losses(loaded, one)


def test_heads_of_floats_need_an_optimizer():
    with pytest.raises(ValueError, match="needs an optimizer"):
        over_replicas("tree", optimizer=None)
    with pytest.raises(ValueError, match="needs an optimizer"):
        over_replicas("tails", optimizer=None)


def test_workers_are_refused(monkeypatch):
    """A process that has the first of two replicas alone."""
    here = "tf_hsm.layers.{}.replicas_here"
    with monkeypatch.context() as patch:
        patch.setattr(here.format("hierarchical_softmax"), lambda: CPUS[:1])
        model = over_replicas("tree")
    (head,) = model.layers
    assert head.shard_kernels[1] is None
    with pytest.raises(ValueError, match="other workers have shards"):
        head.quantize("int8")
    assert head.quantization_mode is None
    monkeypatch.setattr(here.format("replicated"), lambda: CPUS[:1])
    with pytest.raises(ValueError, match="int8 are for the replicas of one"):
        over_replicas("tree", optimizer=None, dtype="int8_from_float32")


def test_training_is_refused():
    """Losses of training, in a function that a strategy runs."""
    model = over_replicas("tree", count=4)
    (head,) = model.layers
    head.quantize("int8")
    strategy = heads.strategy_of(4)

    def of_replica():
        with tf.GradientTape():
            return head(X, LABELS)

    step = tf.function(lambda: strategy.run(of_replica))
    with pytest.raises(ValueError, match="quantized and cannot train"):
        step()
