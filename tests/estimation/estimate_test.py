"""`tf_hsm.estimate` as a user calls it."""

import json
import math

import keras
import numpy as np
import pytest

import tf_hsm
from tests.support.estimates import estimate, stacked
from tf_hsm.estimation.result import PROCESS_BYTES


def test_totals_are_sums_of_parts():
    found = estimate(
        "lstm:2x16", num_classes=100, vocabulary=50, length=5, width=9
    )
    for name in ("parameters", "parameter_bytes", "slot_bytes", "saved_bytes"):
        parts = sum(getattr(p, name) for p in found.parts)
        assert getattr(found, name) == parts
    assert found.milliseconds == pytest.approx(
        1000 * sum(map(sum, found.seconds))
    )
    assert found.tokens_per_second == pytest.approx(
        8 * 5 / found.milliseconds * 1000
    )
    assert [p.name for p in found.parts][-2:] == ["projection", "hierarchical"]
    assert found.parts[-2].parameters == 16 * 9 + 9
    assert found.flops[1] > found.flops[0] > 0


def test_a_model_that_computes_nothing():
    model = stacked((6,), keras.layers.Reshape([2, 3]))
    found = estimate(model, batch=4, corpus_tokens=100)
    assert found.milliseconds == 0 and "inf tokens/s" in str(found)
    found = found.to_dict()
    assert found["tokens_per_second"] == np.inf
    assert found["hours_per_epoch"] == 0


def test_a_model_with_its_head():
    table = keras.layers.Embedding(50, 6)
    cell = keras.layers.GRU(7, return_sequences=True)
    head = tf_hsm.layers.HierarchicalSoftmax(tf_hsm.Tree.two_level(50))
    model = stacked((5,), table, cell, head, dtype="int32")
    found = estimate(model)
    assert found.parameters == model.count_params()
    assert found.setting.length == 5
    assert found.parts[-1].kind == "HierarchicalSoftmax"
    assert found.labels == 8 * 5
    # The same, put together.
    other = estimate("gru:7", head.tree, length=5, vocabulary=50)
    assert other.parts[-1].parameters == found.parts[-1].parameters


def test_labels_per_example():
    """A label tree costs more with more labels, however it is given."""
    layer = tf_hsm.layers.LabelTree(tf_hsm.Tree.two_level(5000))
    model = stacked((8,), layer)
    few, many = (
        [
            estimate(*what, width=width, labels_per_example=labels)
            for what, width in (
                ((None, tf_hsm.estimation.head("label_tree", layer.tree)), 8),
                ((None, layer), 8),
                ((model,), None),
            )
        ]
        for labels in (1, 5)
    )
    assert len({x.parts[-1].forward.flops for x in few}) == 1
    for one, other in zip(few, many, strict=True):
        assert 2 < other.flops[0] / one.flops[0] < 5
        assert other.gradient_bytes > 2 * one.gradient_bytes
        assert other.parameters == one.parameters == 8 * 5071 + 5071
    for wrong in (-1, math.nan, math.inf, "3"):
        with pytest.raises(ValueError, match=f"example is {wrong!r}; it must"):
            estimate(None, layer, labels_per_example=wrong)


def test_labels_per_example_of_a_softmax():
    """Examples may have none; of other heads they have one each."""
    layer = tf_hsm.layers.HierarchicalSoftmax(
        tf_hsm.Tree.two_level(5000), several_labels=True
    )
    found, none = (
        estimate(None, layer, width=8, batch=30, labels_per_example=labels)
        for labels in (4, 0)
    )
    assert 0 < none.flops[0] < found.flops[0] / 100
    for head in ("full", "gather", "map_fn"):
        with pytest.raises(ValueError, match="per_example is 4, but is for"):
            estimate(None, head, num_classes=50, width=8, labels_per_example=4)


def test_nothing_is_made():
    found = estimate(
        tf_hsm.estimation.transformer(layers=96, d_model=12_288, heads=96),
        "full",
        num_classes=50_257,
        batch=1,
    )
    # GPT-3's layers (Brown et al., 2020): 175 billion with its embedding.
    assert found.parameters == pytest.approx(174.6e9, rel=0.01)


def test_epochs_and_memory():
    found = estimate(None, num_classes=1000, width=8, corpus_tokens="10M")
    hours = 1e7 / found.tokens_per_second / 3600
    assert found.hours_per_epoch == pytest.approx(hours)
    assert found.memory == 16e9
    assert found.fits
    spare = 16e9 - found.peak_bytes - PROCESS_BYTES
    assert found.spare_bytes == pytest.approx(spare)
    small = estimate(None, num_classes=1000, width=8, memory="1MB")
    assert not small.fits
    unknown = estimate(
        None, num_classes=1000, width=8, machine={"flops": 1, "read_write": 1}
    )
    assert unknown.fits is None
    assert unknown.spare_bytes is None
    assert unknown.hours_per_epoch is None


def test_replicas_save_time_not_flops():
    options = {"num_classes": 1000, "batch": 64, "length": 10}
    one = estimate("lstm:64", **options)
    four, slow = (
        estimate("lstm:64", replicas=4, network=rate, **options)
        for rate in ("1TB", "1MB")
    )
    assert four.setting.batch == 16
    assert four.parameter_bytes == one.parameter_bytes
    work = sum(four.flops[:2])
    assert 4 * work == pytest.approx(sum(one.flops[:2]), rel=0.02)
    assert four.tokens_per_second > 2 * one.tokens_per_second
    assert slow.tokens_per_second < one.tokens_per_second
    dense = [p for p in four.parts if p.kind == "LSTM"]
    wire = 2 * 3 / 4 * sum(p.gradient_bytes for p in dense)
    assert four.replicas.wire_bytes > wire
    # Statistics that are not trained do not make a gradient a sparse one.
    model = stacked((6,), keras.layers.BatchNormalization())
    found = estimate(model, replicas=8)
    assert found.replicas.wire_bytes == 2 * 7 / 8 * found.gradient_bytes


def test_numbers_of_numpy():
    found = estimate(
        tf_hsm.estimation.recurrent("lstm", [np.int64(8)]),
        num_classes=np.int64(50),
        batch=np.int32(4),
        length=np.int64(3),
        memory=np.float32(1e9),
    )
    json.dumps(found.to_dict())


def test_a_head_cut_over_devices_fits():
    options = {"num_classes": "1M", "width": 300, "batch": 400, "memory": "2GB"}
    whole = estimate(None, **options)
    cut = estimate(None, shards=8, network="10GB", **options)
    assert not whole.fits and cut.fits
    assert "shard of 8" in str(cut) and "network" in str(cut)
    assert cut.parameter_bytes == pytest.approx(
        whole.parameter_bytes / 8, rel=0.05
    )
    slow = estimate(None, shards=8, network="1MB", **options)
    assert slow.milliseconds > 2 * cut.milliseconds


def test_an_adaptive_optimizer_costs_memory():
    sgd, adam, none = (
        estimate("lstm:256", length=10, optimizer=name)
        for name in ("sgd", "adam", None)
    )
    assert sgd.slot_bytes == 0
    assert adam.slot_bytes == 2 * adam.parameter_bytes
    assert adam.peak_bytes > sgd.peak_bytes > none.peak_bytes
    assert none.gradient_bytes == none.saved_bytes == 0
    assert none.flops[1:] == (0, 0)
    assert none.milliseconds < sgd.milliseconds / 2


def test_types():
    for dtype, size, saved in (
        ("float32", 4, 1),
        ("bfloat16", 2, 0.5),
        ("mixed_bfloat16", 4, 0.5),
    ):
        found = estimate("lstm:32", length=4, dtype=dtype)
        assert found.parameter_bytes == size * found.parameters
        reference = estimate("lstm:32", length=4)
        assert found.saved_bytes == saved * reference.saved_bytes
    # A type is for all variables of a model.
    model = stacked((6,), keras.layers.Dense(5))
    found = estimate(model, "full", num_classes=9, dtype="float64")
    assert found.parameter_bytes == 8 * found.parameters


def test_a_body_with_one_output_for_a_sequence():
    """A head after the last state has one label for each sequence."""
    for every in (False, True):
        cell = keras.layers.GRU(7, return_sequences=every)
        found = estimate(stacked((5, 6), cell), "full", num_classes=9)
        labels = 8 * (5 if every else 1)
        assert found.labels == labels
        assert found.parts[-1].forward.softmax == labels * 9
    cell, own = keras.layers.GRU(7), keras.layers.Dense(9)
    assert estimate(stacked((5, 6), cell, own)).labels == 8


def test_frozen_layers_have_no_backward():
    frozen = [keras.layers.Dense(64, trainable=False) for _ in range(2)]
    *parts, head = estimate(stacked((6,), *frozen, keras.layers.Dense(3))).parts
    for part in parts:
        assert part.backward.flops == part.saved_bytes == 0
        assert part.slot_bytes == part.gradient_bytes == 0
    assert head.backward.flops > 0
    first, last = estimate(
        stacked((6,), keras.layers.Dense(6), frozen[0])
    ).parts
    assert first.slot_bytes > 0
    assert last.slot_bytes == last.gradient_bytes == 0


def test_a_step_in_place_is_in_the_backward():
    """Layers before it that are not trained have none."""
    frozen = keras.layers.Dense(16, trainable=False)
    for trainable in (True, False):
        layer = tf_hsm.layers.HierarchicalSoftmax(
            tf_hsm.Tree.flat(9), optimizer="sgd", trainable=trainable
        )
        body, head = estimate(stacked((6,), frozen, layer)).parts
        assert body.backward.flops == body.saved_bytes == 0
        assert (head.backward.flops > 0) == trainable
    options = {"num_classes": 9, "width": 16, "head_optimizer": "sgd"}
    assert estimate(None, **options).flops[1] > 0
    assert estimate(None, optimizer=None, **options).flops[1:] == (0, 0)


def test_images_are_no_sequences():
    convolution, flat = keras.layers.Conv2D(3, 3), keras.layers.Flatten()
    model = stacked((12, 12, 1), convolution, flat, keras.layers.Dense(4))
    found = estimate(model)
    assert found.setting.length == 1
    assert "8 examples" in str(found)


def test_an_embedding_softmax_takes_ids():
    layer = tf_hsm.layers.EmbeddingSoftmax(
        tf_hsm.Tree.two_level(100),
        num_embeddings=50,
        width=6,
        several_labels=True,
    )
    with pytest.raises(ValueError, match="takes ids, but the body makes"):
        estimate("lstm:6", layer)
    with pytest.raises(ValueError, match="width is 7, but head has 6"):
        estimate(None, layer, width=7)
    # Several labels are so many bags: ids are repeated, not vectors.
    found = estimate(None, layer, batch=10, labels_per_example=4)
    paths = estimate(None, layer, batch=40)
    assert found.flops == paths.flops
    assert found.saved_bytes == paths.saved_bytes
    assert found.gradient_bytes == paths.gradient_bytes


TREE = tf_hsm.Tree.two_level(9)
ON_DEVICES = [
    tf_hsm.layers.HierarchicalSoftmax(TREE, devices=["CPU:0"]),
    tf_hsm.layers.AdaptiveSoftmax(
        9, cutoffs=[3], div_value=1, devices=["CPU:0"]
    ),
]
CUT = tf_hsm.estimation.head(TREE, shards=2, optimizer="sgd")


@pytest.mark.parametrize(
    "arguments",
    [
        {"num_classes": 9, "shards": 7, "head_optimizer": "sgd"},
        {"body": "gru:8", "head": CUT},
        {"head": [ON_DEVICES[0], "full"], "num_classes": 9},
        {"head": ON_DEVICES[1]},
        {"body": keras.Sequential([keras.Input([3]), ON_DEVICES[1]])},
    ],
)
def test_a_head_on_devices_has_no_replicas(arguments):
    arguments = {"body": None, "width": 3, "batch": 8, **arguments}
    tf_hsm.estimate(**arguments)
    with pytest.raises(
        ValueError, match="replicas is 8, but the head is cut over devices"
    ):
        tf_hsm.estimate(**arguments, replicas=8)


HEAD = {"body": None, "num_classes": 9, "width": 3}
NINE = tf_hsm.estimation.transformer(layers=1, length=9)
DENSE = keras.layers.Dense(9)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"body": None}, "nothing to estimate"),
        ({"body": None, "num_classes": 9}, "width is missing: give the width"),
        ({"batch": 0}, "batch is 0"),
        ({"length": 0}, "length is 0"),
        ({"replicas": 0}, "replicas is 0"),
        ({"dtype": "int8"}, "dtype is 'int8'"),
        ({"memory": "24 apples"}, "memory is '24 apples'"),
        ({"network": "x"}, "network is 'x'"),
        ({"counts": "zipf"}, "counts applies to a head"),
        ({"head_optimizer": "sgd"}, "head_optimizer applies to a head"),
        (HEAD | {"head_optimizer": True}, "head_optimizer: .* but is bool"),
        (HEAD | {"head_optimizer": "adam"}, "head_optimizer: .* is 'adam'"),
        ({"shards": 2}, "shards applies to a head"),
        ({"body": "lstmm:8"}, "the body 'lstmm:8' has another form"),
        ({"body": "lstm:0"}, "has width 0"),
        ({"body": "lstm:8x"}, "another form"),
        ({"body": "lstm:8:2"}, "another form"),
        ({"body": "embedding:2x8"}, "another form"),
        ({"body": "embedding:8"}, "'embedding:8' needs vocabulary"),
        ({"body": NINE, "length": 7}, "length is 7, but the body's"),
        (HEAD | {"num_classes": 9.5}, "num_classes must be an integer"),
        (HEAD | {"num_classes": 10**25}, "positive number below 1e18"),
        ({"head": "full"}, "which needs the number of its classes"),
        ({"head": [], "num_classes": 9}, "head is empty"),
        ({"num_classes": "lots"}, "num_classes is 'lots'"),
        ({"head": DENSE, "head_optimizer": "sgd"}, "a head given by name"),
        ({"head": TREE, "num_classes": 8}, "num_classes is 8, but head has 9"),
        ({"body": DENSE, "vocabulary": 9}, "is for a body given as text"),
    ],
)
def test_bad_arguments(arguments, message):
    with pytest.raises((TypeError, ValueError), match=message):
        estimate(**{"body": "lstm:8", **arguments})
