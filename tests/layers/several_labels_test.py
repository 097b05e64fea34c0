"""Heads whose inputs have several labels: the mean of their losses."""

import keras
import numpy as np
import pytest
import tensorflow as tf

import tf_hsm
from tests.support.models import NUM_CLASSES, TREE, make_head
from tf_hsm.layers import AdaptiveSoftmax, SampledSoftmax
from tf_hsm.metrics import PrecisionAtK

WIDTH = 5


def make_data(examples=21, most=4, seed=0):
    """Inputs, and between none and `most` labels each, in a ragged list."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=[examples, WIDTH]).astype("f4")
    labels = [
        rng.choice(NUM_CLASSES, rng.integers(most + 1), replace=False)
        for _ in range(examples)
    ]
    return x, labels


def padded(labels, padding=-1):
    full = np.full([len(labels), max(map(len, labels))], padding)
    for row, its in zip(full, labels, strict=True):
        row[: len(its)] = its
    return full


def make_model(head, metrics=()):
    model = keras.Sequential([keras.Input([WIDTH]), head])
    model.compile(keras.optimizers.SGD(0.5), loss=head.loss, metrics=[*metrics])
    return model


def some_heads():
    return [
        make_head(several_labels=True),
        AdaptiveSoftmax(NUM_CLASSES, cutoffs=[10], several_labels=True),
        SampledSoftmax(NUM_CLASSES, num_sampled=9, several_labels=True),
        make_head(several_labels=True, devices=["CPU:0"] * 2, name="cut"),
    ]


def expected_losses(head, x, labels):
    """The mean over each one's labels, from the log-probabilities of all."""
    with head.on_one_device():
        log_probs = head.log_probs(x).numpy()
    return np.array(
        [
            -row[its].mean() if len(its) else 0
            for row, its in zip(log_probs, labels, strict=True)
        ]
    )


@pytest.mark.parametrize("head", some_heads(), ids=lambda h: h.name)
def test_losses(head):
    """One per input; the mean over the inputs that have labels."""
    x, labels = make_data()
    losses = head(x, padded(labels))
    expected = expected_losses(head, x, labels)
    np.testing.assert_allclose(losses, expected, rtol=1e-5)
    counted = [len(its) > 0 for its in labels]
    assert 0 < sum(counted) < len(labels)
    np.testing.assert_allclose(
        head.losses[0], expected[counted].mean(), rtol=1e-5
    )


def test_ways_to_say_it():
    """Ragged; other negative numbers; ignore_class; a sequence."""
    head = make_head(several_labels=True)
    x, labels = make_data()
    losses = head(x, padded(labels)).numpy()
    ragged = tf.ragged.constant([its.tolist() for its in labels])
    np.testing.assert_array_equal(head(x, ragged), losses)
    np.testing.assert_array_equal(head(x, padded(labels, -7)), losses)
    sequence = head(x.reshape([3, 7, -1]), padded(labels).reshape([3, 7, -1]))
    np.testing.assert_allclose(
        sequence, losses.reshape([3, 7]), rtol=1e-5, atol=1e-6
    )
    ignoring = make_head(several_labels=True, ignore_class=4)
    ignoring.build([None, WIDTH])
    ignoring.set_weights(head.get_weights())
    without = [its[its != 4] for its in labels]
    np.testing.assert_allclose(
        ignoring(x, padded(labels)), head(x, padded(without)), rtol=1e-5
    )


def test_mask():
    """What is masked has no labels."""
    head = make_head(several_labels=True)
    x, labels = make_data()
    mask = np.arange(len(x)) % 3 != 0
    losses = head(x, padded(labels), inputs_mask=mask)
    expected = expected_losses(head, x, labels)
    np.testing.assert_allclose(losses, expected * mask, rtol=1e-5)


@pytest.mark.parametrize("own", [False, True])
def test_fit(own):
    """In place and by the model's optimizer, as by gradients of the means."""
    x, labels = make_data()
    optimizer = tf_hsm.optimizers.SGD(0.5) if own else None
    head = make_head(several_labels=True, optimizer=optimizer)
    model = make_model(head)
    by_hand = make_head()
    by_hand.build([None, WIDTH])
    by_hand.kernel.assign(head.kernel)
    by_hand.bias.assign(head.bias)
    counted = np.array([len(its) > 0 for its in labels])
    for _ in range(3):
        with tf.GradientTape() as tape:
            log_probs = by_hand.log_probs(x)
            means = [
                -tf.reduce_mean(tf.gather(log_probs[i], labels[i]))
                for i in np.flatnonzero(counted)
            ]
            loss = tf.add_n(means) / len(means)
        variables = [by_hand.kernel, by_hand.bias]
        for v, g in zip(variables, tape.gradient(loss, variables), strict=True):
            v.assign_sub(0.5 * tf.convert_to_tensor(g))
    history = model.fit(
        x, padded(labels), epochs=3, batch_size=len(x), verbose=0
    )
    assert history.history["loss"][-1] < history.history["loss"][0]
    for mine, its in zip(
        [head.kernel, head.bias], [by_hand.kernel, by_hand.bias], strict=True
    ):
        np.testing.assert_allclose(mine, its, rtol=1e-4, atol=1e-5)


def test_ragged_fit():
    """A data set of ragged labels."""
    x, labels = make_data()
    ragged = tf.ragged.constant([its.tolist() for its in labels])
    models = [make_model(make_head(several_labels=True)) for _ in range(2)]
    models[1].set_weights(models[0].get_weights())
    models[0].fit(x, padded(labels), batch_size=7, shuffle=False, verbose=0)
    models[1].fit(
        tf.data.Dataset.from_tensor_slices((x, ragged)).batch(7), verbose=0
    )
    for mine, its in zip(*(m.get_weights() for m in models), strict=True):
        np.testing.assert_allclose(mine, its, rtol=1e-5, atol=1e-6)


def test_saving(tmp_path):
    x, labels = make_data()
    model = make_model(make_head(several_labels=True))
    model.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    assert loaded.layers[-1].several_labels
    np.testing.assert_array_equal(
        loaded.layers[-1](x, padded(labels)),
        model.layers[-1](x, padded(labels)),
    )


def test_wrong_labels():
    x, labels = make_data()
    head = make_head(several_labels=True)
    with pytest.raises(ValueError, match=r"\(21,\), must have .* \(21, 5\)"):
        head(x, np.zeros(len(x), int))
    with pytest.raises(TypeError, match="integers"):
        head(x, padded(labels).astype("f4"))
    with pytest.raises(Exception, match=f"outside .0, {NUM_CLASSES}"):
        head(x, np.where(padded(labels) < 0, NUM_CLASSES, padded(labels)))


def precision(head, x, labels, k):
    best = np.argsort(-head.log_probs(x).numpy(), axis=1)[:, :k]
    return np.array(
        [
            len(set(mine) & set(its)) / k
            for mine, its in zip(best.tolist(), labels, strict=True)
        ]
    )


@pytest.mark.parametrize("k", [1, 3, NUM_CLASSES])
def test_precision(k):
    """Over uneven batches, against a sort of all classes."""
    x, labels = make_data()
    head = make_head(several_labels=True)
    model = make_model(head, [PrecisionAtK(head, k)])
    logs = model.evaluate(
        x, padded(labels), batch_size=8, verbose=0, return_dict=True
    )
    expected = precision(head, x, labels, k)
    assert expected.mean() > 0 or k == 1
    np.testing.assert_allclose(
        logs[f"precision_at_{k}"], expected.mean(), rtol=1e-5
    )


def test_precision_by_weights():
    """Sample weights; ragged labels; a state that is forgotten."""
    x, labels = make_data()
    head = make_head()
    ragged = tf.ragged.constant([its.tolist() for its in labels])
    weights = np.arange(len(x), dtype="f4")
    metric = PrecisionAtK(head, 5)
    metric.update_state(ragged, head(x), weights)
    np.testing.assert_allclose(
        metric.result(),
        np.average(precision(head, x, labels, 5), weights=weights),
        rtol=1e-5,
    )
    metric.reset_state()
    assert float(metric.result()) == 0
    assert PrecisionAtK.from_config(metric.get_config()).k == 5


def test_precision_of_an_endpoint():
    """A second output, the hidden vectors, has the metric.

    An input without labels counts as 0 there too.
    """
    x, labels = make_data()
    labels = padded(labels)
    head = make_head(several_labels=True)
    inputs = keras.Input([WIDTH])
    targets = keras.Input(labels.shape[1:], dtype="int64")
    model = keras.Model(
        [inputs, targets], [head(inputs, targets), head(inputs)]
    )
    model.compile("sgd", metrics=[[], [PrecisionAtK(head, 5)]])
    logs = model.evaluate(
        [x, labels], [labels, labels], verbose=0, return_dict=True
    )
    (found,) = (v for k, v in logs.items() if k.endswith("precision_at_5"))
    expected = precision(head, x, [its[its >= 0] for its in labels], 5)
    np.testing.assert_allclose(found, expected.mean(), rtol=1e-5)
    np.testing.assert_allclose(
        logs["loss"], head.loss(labels, head(x)), rtol=1e-5
    )


def test_unsigned_ragged_labels():
    """In uint8, -1 would be the class 255."""
    x = np.ones([2, WIDTH], "float32")
    head = tf_hsm.layers.HierarchicalSoftmax(
        tf_hsm.Tree.two_level(300), several_labels=True
    )
    rows = [[3, 9], [7]]
    losses = [
        head(x, tf.ragged.constant(rows, dtype=dtype)).numpy()
        for dtype in (tf.uint8, tf.int64)
    ]
    np.testing.assert_array_equal(*losses)


def test_wrong_k():
    x, labels = make_data()
    head = make_head(TREE)
    with pytest.raises(ValueError, match="k = 0 is below 1"):
        PrecisionAtK(head, 0)
    with pytest.raises(ValueError, match=r"k = 31, but .* has 30 classes"):
        PrecisionAtK(head, 31).update_state(padded(labels), head(x))
