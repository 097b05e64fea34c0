"""Class weights and the focal loss of layers."""

import contextlib

import keras
import numpy as np
import pytest
import tensorflow as tf

import tf_hsm
from tests.support import oracle
from tests.support.in_place_models import make_adaptive
from tests.support.models import (
    NUM_CLASSES,
    TREE,
    WIDTH,
    compile_form,
    endpoint_form,
    make_data,
    make_head,
    sampled_head,
    train,
)
from tests.support.training import layer_step
from tests.support.training_losses import (
    FORMS,
    assert_near,
    built_head,
    expected,
    minimized,
    one_hot,
    random_inputs,
)

# Binary fractions, one of them 0.
WEIGHTS = np.arange(NUM_CLASSES) / 8
GAMMA = 1.5


def focal(p, gamma):
    return -((1 - p) ** gamma) * np.log(p)


def focal_slope(p, gamma):
    """The derivative by log p, of Lin et al. (2017), appendix B."""
    return (1 - p) ** gamma * (gamma * p / (1 - p) * np.log(p) - 1)


def weighted_focal(labels, weights, class_weights, gamma):
    """The mean over labels `[B, M]` and examples, as `expected` takes it."""
    shares = one_hot(labels, weights) * class_weights / len(labels)

    def function(log_probs):
        p = np.exp(log_probs)
        total = (shares * focal(p, gamma)).sum()
        return total, shares * focal_slope(p, gamma)

    return function


@pytest.mark.parametrize("in_place", [False, True])
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(
    "options",
    [
        {"class_weights": WEIGHTS},
        {"focal_gamma": GAMMA},
        {"class_weights": WEIGHTS, "focal_gamma": GAMMA},
    ],
    ids=["weights", "focal", "both"],
)
def test_what_is_minimized(options, form, in_place):
    """Labels are single or several, with sample weights."""
    x, rng = random_inputs(11), np.random.default_rng(3)
    weights = rng.uniform(size=[11, 3])
    for several in (False, True):
        labels = rng.integers(NUM_CLASSES, size=[11, 3 if several else 1])
        its = weights[:, : labels.shape[1]]
        head = built_head(in_place=in_place, several_labels=several, **options)
        want = expected(
            head,
            x,
            weighted_focal(
                labels,
                its,
                options.get("class_weights", 1),
                options.get("focal_gamma", 0),
            ),
        )
        assert_near(minimized(head, form, x, labels, its), want)


def test_the_oracle_by_differences():
    head, x = built_head(), random_inputs(2)
    labels = np.array([[1, 2], [3, 4]])
    function = weighted_focal(labels, np.ones([2, 2]), WEIGHTS, GAMMA)
    _, (dx, _, _) = expected(head, x, function)
    want = oracle.finite_differences(
        lambda x: expected(head, x, function)[0], x
    )
    np.testing.assert_allclose(dx, want, atol=1e-8)


@pytest.mark.parametrize("make", [make_head, make_adaptive, sampled_head])
def test_every_head(make):
    """In training and evaluation; plain losses have neither.

    Labels that are masked or ignored may be anything.
    """
    labels = np.array([1, 2, -1, 29, 7, 2**40])
    mask = np.array([True, True, True, True, False, False])
    options = {"class_weights": WEIGHTS, "focal_gamma": GAMMA}
    head, plain = (
        make(ignore_class=-1, dtype="float64", **its) for its in (options, {})
    )
    x = random_inputs(6)
    plain(x)
    head.build(x.shape)
    head.set_weights(plain.get_weights())
    ask = {"inputs_mask": mask}
    np.testing.assert_array_equal(
        head._find_losses(labels, x, plain=True, **ask).losses,
        plain(x, labels, **ask),
    )
    for scope in (contextlib.nullcontext, tf.GradientTape):
        with scope():
            p = np.exp(-plain(x, labels, **ask).numpy())
            found = head(x, labels, **ask).numpy()
        kept = [0, 1, 3]
        wanted = WEIGHTS[labels[kept]] * focal(p[kept], GAMMA)
        np.testing.assert_allclose(found[kept], wanted, rtol=1e-10)
        assert not found[[2, 4, 5]].any()


@pytest.mark.parametrize("in_place", [False, True])
def test_an_adaptive_head_in_place(in_place):
    """A step moves its rows as gradients of the log-probabilities say."""
    optimizer = tf_hsm.optimizers.SGD(1.0) if in_place else None
    options = {"class_weights": WEIGHTS, "focal_gamma": GAMMA}
    head = make_adaptive(dtype="float64", optimizer=optimizer, **options)
    same = make_adaptive(dtype="float64")
    x, labels = random_inputs(11), np.arange(11) * 13 % NUM_CLASSES
    for layer in (head, same):
        layer.build(x.shape)
    for mine, its in zip(
        head.row_variables(), same.row_variables(), strict=True
    ):
        mine.assign(its)
    for mine, its in zip(head.projections, same.projections, strict=True):
        assert mine is None or mine.assign(its) is not None
    variables = same.row_variables()
    with tf.GradientTape() as tape:
        log_probs = tf.gather(same.log_probs(x), labels, batch_dims=1)
        p = tf.exp(log_probs)
        weights = tf.gather(WEIGHTS, labels) * (1 - p) ** GAMMA
        total = tf.reduce_mean(-weights * log_probs)
    want = tape.gradient(total, [v.value for v in variables])
    with tf.GradientTape() as tape:
        head(x, labels)
        (total_found,) = head.losses
    np.testing.assert_allclose(total_found, total, rtol=1e-6)
    if in_place:
        tape.gradient(total_found, head.trainable_variables)
        found = [
            before.numpy() - now.numpy()
            for before, now in zip(variables, head.row_variables(), strict=True)
        ]
    else:
        found = tape.gradient(
            total_found, [v.value for v in head.row_variables()]
        )
    for mine, its in zip(found, want, strict=True):
        np.testing.assert_allclose(
            tf.convert_to_tensor(mine), tf.convert_to_tensor(its), atol=1e-7
        )


@pytest.mark.parametrize("form", [compile_form, endpoint_form])
def test_fit_on_sequences(form, tmp_path):
    """As sample weights of each label; saved and loaded."""
    tokens, labels = make_data()
    weighted = form(class_weights=WEIGHTS)
    its = {"weighted": True} if form is endpoint_form else {}
    plain = form(compiling={"run_eagerly": True}, **its)
    plain.set_weights(weighted.get_weights())
    weights = WEIGHTS[labels].astype("f4")
    if form is compile_form:
        losses = [
            train(weighted, tokens, labels),
            train(plain, tokens, labels, sample_weight=weights),
        ]
        data = {"x": tokens, "y": labels}
    else:
        losses = [
            train(weighted, [tokens, labels]),
            train(plain, [tokens, labels, weights]),
        ]
        data = {"x": [tokens, labels]}
    np.testing.assert_allclose(*losses, rtol=1e-5)
    for mine, its in zip(
        weighted.get_weights(), plain.get_weights(), strict=True
    ):
        np.testing.assert_allclose(mine, its, atol=1e-5)
    weighted.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    again = train(loaded, data["x"], data.get("y"), epochs=1)
    np.testing.assert_allclose(
        again, train(weighted, data["x"], data.get("y"), epochs=1), rtol=1e-6
    )
    # In evaluation too; perplexity has none.
    plain.set_weights(weighted.get_weights())
    its = {**data, "sample_weight": weights}
    if form is endpoint_form:
        its = {"x": [tokens, labels, weights]}
    np.testing.assert_allclose(
        weighted.evaluate(**data, verbose=0),
        plain.evaluate(**its, verbose=0),
        rtol=1e-5,
    )


@pytest.mark.parametrize("own", [False, True])
def test_keras_class_weight(own):
    """`fit` weighs single labels as `class_weights` of the layer does."""
    x = random_inputs(11).astype("f4")
    labels = np.arange(11) * 13 % NUM_CLASSES
    results = []
    for layer_weights in (None, dict(enumerate(WEIGHTS))):
        keras.utils.set_random_seed(0)
        head = make_head(
            class_weights=layer_weights,
            optimizer=tf_hsm.optimizers.SGD(0.5) if own else None,
        )
        model = keras.Sequential([keras.Input([WIDTH]), head])
        model.compile(
            keras.optimizers.SGD(0.5),
            head.loss,
            run_eagerly=layer_weights is not None,
        )
        its = dict(enumerate(WEIGHTS)) if layer_weights is None else None
        losses = model.fit(
            x, labels, class_weight=its, epochs=2, shuffle=False, verbose=0
        ).history["loss"]
        results.append((losses, [head.kernel.numpy(), head.bias.numpy()]))
    assert_near(*results, 1e-5)


def test_saving(tmp_path):
    for make in (make_head, make_adaptive, sampled_head):
        head = make(class_weights=WEIGHTS, focal_gamma=GAMMA)
        copy = type(head).from_config(head.get_config())
        np.testing.assert_array_equal(copy.class_weights, WEIGHTS)
        assert copy.focal_gamma == GAMMA
        config = make().get_config()
        del config["class_weights"], config["focal_gamma"]
        assert type(head).from_config(config).class_weights is None


def test_grown():
    """New classes have the weight 1."""
    head = built_head(class_weights=WEIGHTS)
    grown = head.grow(TREE.grow(2))
    np.testing.assert_array_equal(grown.class_weights, [*WEIGHTS, 1, 1])


@pytest.mark.parametrize("in_place", [False, True])
def test_a_plan(in_place):
    """Two devices have the losses of one, and make its step in place."""
    x, labels = random_inputs(5).astype("f4"), np.arange(5)
    answers = []
    for devices in (None, ["CPU:0", "CPU:0"]):
        head = make_head(
            class_weights=WEIGHTS,
            focal_gamma=GAMMA,
            devices=devices,
            optimizer=tf_hsm.optimizers.SGD(1.0) if in_place else None,
        )
        head.build(x.shape)
        if devices is None:
            first = make_head()
            first.build(x.shape)
        tf_hsm.distribute.copy_weights(first, head)
        losses = layer_step(head, x, labels)
        answers.append([losses, head.log_probs(x)])
    for one, other in zip(*answers, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-6)
    assert in_place != np.allclose(answers[0][1], first.log_probs(x))


@pytest.mark.parametrize(
    "error, message, options",
    [
        (
            ValueError,
            "one for each class, .30., but",
            {"class_weights": [1, 2]},
        ),
        (
            ValueError,
            "weight of class 3 in class_weights is nan",
            {"class_weights": np.where(WEIGHTS == 0.375, np.nan, WEIGHTS)},
        ),
        (ValueError, "class 0 in .* is -1", {"class_weights": {0: -1}}),
        (TypeError, "class 1 in .* is None", {"class_weights": {1: None}}),
        (TypeError, "class 2 in .* is 'x'", {"class_weights": {2: "x"}}),
        (IndexError, "class 30 is out of range", {"class_weights": {30: 1}}),
        (
            ValueError,
            "label may be an inner node",
            {"class_weights": WEIGHTS, "node_labels": True},
        ),
        (ValueError, "focal_gamma is -1; it must", {"focal_gamma": -1}),
        (ValueError, "focal_gamma is 'x'; it must", {"focal_gamma": "x"}),
        (
            ValueError,
            "which a smoothed loss does not give",
            {"focal_gamma": 1, "label_smoothing": 0.1},
        ),
    ],
)
def test_wrong_arguments(error, message, options):
    with pytest.raises(error, match=message):
        make_head(**options)


def test_an_infinite_loss_of_a_class_without_weight():
    """A class that is switched off, and weighs nothing, spoils no other."""
    head = built_head(class_weights={3: 0.0}, focal_gamma=2.0)
    bias = head.bias.numpy()
    bias[head.tree.class_rows[3]] = -np.inf
    head.bias.assign(bias)
    labels = np.array([3, 1, 3, 1])
    with tf.GradientTape() as tape:
        total = tf.reduce_sum(head(random_inputs(4), labels))
    gradients = tape.gradient(total, [head.kernel, head.bias])
    assert np.isfinite(total)
    for gradient in gradients:
        assert np.isfinite(tf.convert_to_tensor(gradient)).all()


def test_class_weights_cannot_be_set():
    """Graphs have them: others would have no effect."""
    head = make_head(class_weights={3: 2.0})
    with pytest.raises(AttributeError, match="class_weights"):
        head.class_weights = np.ones(NUM_CLASSES)
    with pytest.raises(ValueError, match="read-only"):
        head.class_weights[3] = 5.0
