"""Models with an AdaptiveSoftmax in training."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from tests.support.adaptive_layers import make_inputs
from tests.support.models import (
    NUM_CLASSES,
    STEPS,
    hidden_layers,
    make_data,
    sequential,
    train,
    train_graph,
)
from tests.support.pinned_heads import COUNTS, WIDTH, data
from tf_hsm import CostModel, Tree
from tf_hsm.layers import AdaptiveSoftmax
from tf_hsm.metrics import Perplexity, TopKAccuracy


def make_model(
    optimizer="sgd", endpoint=False, make_metrics=lambda head: (), **options
):
    """Tokens to hidden vectors, or with labels to losses; and the head."""
    options = {"cutoffs": [4, 11], "div_value": 2, **options}
    counts = np.random.default_rng(0).integers(9, size=NUM_CLASSES)
    head = AdaptiveSoftmax(NUM_CLASSES, counts=counts, **options)
    model = sequential(*hidden_layers(dtype=options.get("dtype")))
    if endpoint:
        labels = keras.Input([STEPS], dtype="int64")
        losses = head(model.outputs[0], labels)
        model = keras.Model([*model.inputs, labels], losses)
        model.compile(optimizer)
        return model, head
    model.add(head)
    model.compile(optimizer, loss=head.loss, metrics=make_metrics(head))
    return model, head


def test_metrics_and_predictions():
    """Masked positions do not count; by an optimizer of Keras it learns too."""
    tokens, labels = make_data()
    model, head = make_model(
        keras.optimizers.Adam(0.05),
        make_metrics=lambda head: [Perplexity(head), TopKAccuracy(head, 3)],
    )
    model.run_eagerly = True
    losses = train(model, tokens, labels, epochs=3)
    assert losses[-1] < 0.95 * losses[0]
    logs = model.evaluate(tokens, labels, batch_size=22, verbose=0)
    hidden = model.predict(tokens, verbose=0)
    counts = tokens != 0
    losses = head(hidden, labels).numpy()[counts]
    log_probs = head.log_probs(hidden).numpy()[counts]
    own = np.take_along_axis(log_probs, labels[counts][:, np.newaxis], -1)
    hits = (log_probs > own).sum(-1) < 3
    np.testing.assert_allclose(
        logs,
        [losses.mean(), np.exp(losses.mean()), hits.mean()],
        rtol=1e-5,
    )
    np.testing.assert_array_equal(
        head.predict_class(hidden)[counts], log_probs.argmax(-1)
    )


@pytest.mark.parametrize(
    "policy, endpoint", [("mixed_bfloat16", False), ("mixed_float16", True)]
)
def test_mixed_precision(policy, endpoint):
    tokens, labels = make_data()
    model, head = make_model(keras.optimizers.SGD(0.5), endpoint, dtype=policy)
    model.run_eagerly = not endpoint
    data = ([tokens, labels],) if endpoint else (tokens, labels)
    losses = train(model, *data)
    assert losses[-1] < losses[0]
    assert {v.dtype for v in head.weights} == {"float32"}


def test_kernels_are_neither_cast_nor_copied():
    """Nothing but the loss, its gradient and the update touch one."""
    model, head = make_model(make_metrics=lambda head: [TopKAccuracy(head, 3)])
    graph = train_graph(model, *make_data())
    for kernel in [head.head_kernel, *head.tail_kernels]:
        handle = kernel.value.handle
        handle = next(i for outer, i in graph.captures if outer is handle)
        uses = {op.type for op in handle.consumers()}
        assert uses <= {
            "ResourceScatterSub",
            "ResourceTfHsmLogProbs",  # TopKAccuracy
            "ResourceTfHsmLoss",
            "ResourceTfHsmLossGrad",
            "ResourceTfHsmTopK",
        }


def test_graph_holds_no_arrays_of_classes():
    """They are captured, not copied in as constants."""
    counts = np.random.default_rng(0).integers(99, size=3000)
    layer = AdaptiveSoftmax(
        3000, cutoffs=[500, 1400], div_value=2, counts=counts
    )
    x, labels = make_inputs(31), np.arange(31)
    layer.build(x.shape)
    function = tf.function(lambda *a: (layer(*a), layer.predict_class(a[0])))
    graph = function.get_concrete_function(x, labels).graph
    sizes = [
        op.outputs[0].shape.num_elements()
        for op in graph.get_operations()
        if op.type == "Const"
    ]
    assert max(sizes) < 128


def test_initial_values():
    """Rows are uniform in +-1 / sqrt(their width), no two matrices alike."""
    layer = AdaptiveSoftmax(900, cutoffs=[300, 600], div_value=1)
    layer.build([None, 64])
    kernels = [layer.head_kernel, *layer.tail_kernels]
    kernels = [k.numpy()[:300].ravel() for k in kernels]
    for kernel in kernels:
        assert 0.99 / 8 < abs(kernel).max() <= 1 / 8
    assert abs(np.corrcoef(kernels) - np.eye(3)).max() < 0.05


@pytest.mark.parametrize("optimizer", [None, "sgd"])
def test_tails_of_an_adaptive_softmax(optimizer, tmp_path):
    tail = Tree.huffman(COUNTS[10:], pinned=True)
    heads = [
        AdaptiveSoftmax(
            len(COUNTS),
            cutoffs=[10],
            div_value=2.0,
            counts=COUNTS,
            tail=[tree],
            optimizer=optimizer,
            name="head",
        )
        for tree in (tail, tail.expand())
    ]
    x, labels = data((12,))
    for head in heads:
        head.build([None, WIDTH])
    head, other = heads
    assert head.tail_kernels[0].shape == (tail.num_groups, 3)
    other.tail_kernels[0].assign(tail.expand_rows(head.tail_kernels[0].numpy()))
    other.tail_biases[0].assign(tail.expand_rows(head.tail_biases[0].numpy()))
    other.head_kernel.assign(head.head_kernel)
    other.projections[0].assign(head.projections[0])
    np.testing.assert_allclose(head(x, labels), other(x, labels), rtol=1e-5)
    np.testing.assert_allclose(
        np.exp(head.log_probs(x)), np.exp(other.log_probs(x)), rtol=1e-4
    )
    np.testing.assert_array_equal(
        head.top_k(x, 20).classes, other.top_k(x, 20).classes
    )
    model = keras.Sequential([keras.Input([WIDTH]), head])
    model.compile("sgd", head.loss, run_eagerly=True)
    history = model.fit(x, labels, epochs=4, verbose=0).history["loss"]
    assert history[-1] < history[0]
    model.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    assert loaded.layers[-1].clusters.tail_trees[0] == tail
    np.testing.assert_array_equal(
        loaded.layers[-1].tail_kernels[0], head.tail_kernels[0]
    )


def test_an_adaptive_softmax_that_embeds():
    tail = Tree.huffman(COUNTS[10:], pinned=True)
    with pytest.raises(ValueError, match=r"tail 0 is pinned.*expand\(\)"):
        AdaptiveSoftmax(len(COUNTS), cutoffs=[10], tail=[tail], width=8)


def test_automatic_cutoffs():
    """Those of the cost model, for the batch, the width and the counts."""
    counts = 1e6 / np.arange(1, 20_001) ** 1.1
    shuffled = np.random.default_rng(0).permutation(counts)
    chosen = {}
    for name, options in {
        "default": {},
        "shuffled": {"counts": shuffled},
        "three": {"cutoffs": 3, "div_value": 2},
        "none": {"cutoffs": 0},
        "large": {"batch": 100_000},
        "calls": {"cost_model": CostModel(call=1e3)},
    }.items():
        layer = AdaptiveSoftmax(20_000, **{"counts": counts, **options})
        assert layer.cutoffs == options.get("cutoffs", "auto")
        layer.build([None, 256])
        chosen[name] = [*layer.cutoffs]
    assert chosen["shuffled"] == chosen["default"] != chosen["large"]
    assert (len(chosen["three"]), chosen["none"]) == (3, [])
    assert len(chosen["calls"]) == 1 < len(chosen["default"])
    tree = Tree.adaptive(counts, num_clusters=2, batch=64, width=32)
    layer = AdaptiveSoftmax(
        20_000, cutoffs=2, div_value=1, counts=counts, batch=64
    )
    layer.build([None, 32])
    assert layer.head_kernel.shape[0] == tree.group_offsets[1]


@pytest.mark.parametrize("num_classes", [1, 2, 3, 4, 10, 1000])
@pytest.mark.parametrize(
    "wrong",
    [
        dict.fromkeys(["call", "floor", "weight", "logit", "product"], 0.0),
        {"weight": 1e9},
        {"logit": 1e9},
        {"floor": 1e9, "product": 0.0},
        {"call": 1e9},
    ],
)
def test_wrong_calibration(num_classes, wrong):
    """No head of one class, and no empty tail, whatever the cost model."""
    for counts in (None, np.zeros(num_classes), np.eye(num_classes)[0]):
        layer = AdaptiveSoftmax(
            num_classes, counts=counts, cost_model=CostModel(**wrong)
        )
        layer.build([None, 32])
        ends = [0, *layer.cutoffs, num_classes]
        assert ends[1] >= min(num_classes, 2)
        assert (np.diff(ends) >= 1).all()
        inputs = make_inputs(1)[:, :8].repeat(4, 1)
        assert layer.predict_class(inputs).shape == [1]
