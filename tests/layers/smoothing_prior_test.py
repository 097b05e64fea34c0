"""The prior of a layer's label smoothing: trained with, saved, grown."""

import json

import keras
import numpy as np
import pytest

import tf_hsm
from tests.support import models

SHARE = 0.25
PRIOR = np.arange(models.NUM_CLASSES) % 7  # some never occur
OPTIONS = {
    "label_smoothing": SHARE,
    "smoothing_prior": PRIOR,
    # So large that labels are more or less probable.
    "kernel_initializer": "random_normal",
    "bias_initializer": keras.initializers.RandomNormal(stddev=3.0, seed=1),
}


def expected_loss(model, x, y, prior=PRIOR, share=SHARE):
    """The mean loss of the labels that count, as the op has it."""
    head, hidden = models.head_of(model), models.hidden_model(model)(x)
    shares = None if prior is None else head.tree.row_shares(prior)
    losses = models.op_losses(
        head, y, hidden, label_smoothing=share, smoothing_prior=shares
    )
    return losses[np.asarray(x) != 0].mean()


def model_of(rate, is_in_place, tree=models.TREE):
    optimizer = tf_hsm.optimizers.SGD(rate) if is_in_place else None
    head = models.make_head(tree, optimizer=optimizer, **OPTIONS)
    model = models.sequential(*models.hidden_layers(), head)
    metrics = [tf_hsm.metrics.Perplexity(head)]
    model.compile(keras.optimizers.SGD(rate), head.loss, metrics=metrics)
    return model


@pytest.mark.parametrize("is_in_place", [False, True])
def test_in_compile(is_in_place):
    x, y = models.make_data()
    model = model_of(0.0, is_in_place)
    smoothed = expected_loss(model, x, y)
    evenly = expected_loss(model, x, y, None)
    assert abs(smoothed - evenly) > 0.05
    history = model.fit(x, y, batch_size=len(x), verbose=0).history
    np.testing.assert_allclose(history["loss"], smoothed, rtol=1e-5)
    found = model.evaluate(x, y, verbose=0, return_dict=True)
    np.testing.assert_allclose(found["loss"], smoothed, rtol=1e-5)
    plain = expected_loss(model, x, y, None, 0.0)
    np.testing.assert_allclose(found["perplexity"], np.exp(plain), rtol=1e-5)


def test_as_an_endpoint():
    x, y = models.make_data()
    model = models.endpoint_form(keras.optimizers.SGD(0.0), **OPTIONS)
    head = models.head_of(model)
    hidden = keras.Model(model.inputs[0], head.input[0])(x)
    losses = models.op_losses(
        head,
        y,
        hidden,
        label_smoothing=SHARE,
        smoothing_prior=models.TREE.row_shares(PRIOR),
    )
    history = model.fit([x, y], batch_size=len(x), verbose=0).history
    want = losses[np.asarray(x) != 0].mean()
    np.testing.assert_allclose(history["loss"], want, rtol=1e-5)


@pytest.mark.parametrize(
    "tree", [models.TREE, tf_hsm.Tree.balanced(30, 2).pin()]
)
def test_a_step_in_place_minimizes_it(tree):
    x, y = models.make_data()
    steps = []
    for is_in_place in (False, True):
        keras.utils.set_random_seed(0)
        model = model_of(1.0, is_in_place, tree)
        model.run_eagerly = not is_in_place
        model.fit(x, y, batch_size=len(x), verbose=0)
        steps.append([v.numpy() for v in models.head_of(model).row_variables()])
    for one, other in zip(*steps, strict=True):
        np.testing.assert_allclose(one, other, atol=1e-6)


def test_a_layer_that_begins_at_the_prior_stays_there():
    """With all of the target, there is nothing to learn."""
    ends = []
    for prior in (PRIOR + 1, PRIOR[::-1] + 1):
        head = models.make_head(
            counts=PRIOR + 1,
            label_smoothing=1.0,
            smoothing_prior=prior,
            kernel_initializer="zeros",
        )
        model = keras.Sequential([keras.Input([models.WIDTH]), head])
        model.compile(keras.optimizers.SGD(1.0), loss=head.loss)
        x = np.ones([models.NUM_CLASSES, models.WIDTH], np.float32)
        model.fit(x, np.arange(models.NUM_CLASSES), verbose=0)
        moved = head.bias.numpy() - models.TREE.log_prior(PRIOR + 1)
        ends.append(abs(moved).max())
    assert ends[0] < 1e-6 < 1e-2 < ends[1]


def test_embeddings():
    ids = np.arange(20)
    labels = ids % models.NUM_CLASSES
    losses = []
    for optimizer in (None, tf_hsm.optimizers.SGD(0.0)):
        keras.utils.set_random_seed(0)
        head = tf_hsm.layers.EmbeddingSoftmax(
            models.TREE,
            num_embeddings=20,
            width=models.WIDTH,
            optimizer=optimizer,
            **OPTIONS,
        )
        model = keras.Sequential([keras.Input([], dtype="int64"), head])
        model.compile(keras.optimizers.SGD(0.0), loss=head.loss)
        history = model.fit(ids, labels, batch_size=20, verbose=0).history
        want = tf_hsm.hierarchical_softmax_loss(
            head.kernel,
            head.bias,
            labels,
            head.embed(ids),
            models.TREE,
            label_smoothing=SHARE,
            smoothing_prior=models.TREE.row_shares(PRIOR),
        )
        np.testing.assert_allclose(history["loss"], np.mean(want), rtol=1e-5)
        losses.append(history["loss"])
    np.testing.assert_allclose(*losses, rtol=1e-5)


def test_labels_at_inner_nodes():
    head = models.make_head(node_labels=True, **OPTIONS)
    hidden = (
        np.random.default_rng(0).normal(size=(4, models.WIDTH)).astype("f4")
    )
    rows = np.array([0, 1, 5, models.TREE.num_rows - 1])
    want = tf_hsm.hierarchical_softmax_loss(
        *_built(head),
        rows,
        hidden,
        models.TREE,
        label_smoothing=SHARE,
        smoothing_prior=models.TREE.row_shares(PRIOR),
        nodes=True,
    )
    got = head(hidden, rows)
    np.testing.assert_allclose(got, want, rtol=1e-5)


def _built(head):
    head.build([None, models.WIDTH])
    return head.kernel, head.bias


@pytest.mark.parametrize("prior", [PRIOR, PRIOR / 3, PRIOR.tolist()])
def test_config(prior):
    head = models.make_head(label_smoothing=SHARE, smoothing_prior=prior)
    config = json.loads(json.dumps(head.get_config()))
    copy = type(head).from_config(config)
    np.testing.assert_array_equal(copy.smoothing_prior, prior)


def test_it_is_saved(tmp_path):
    prior = PRIOR / 3
    model = models.compile_form(label_smoothing=SHARE, smoothing_prior=prior)
    x, y = models.make_data()
    model.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    np.testing.assert_array_equal(models.head_of(loaded).smoothing_prior, prior)
    histories = [
        m.fit(x, y, shuffle=False, verbose=0).history["loss"]
        for m in (model, loaded)
    ]
    np.testing.assert_array_equal(*histories)


def test_a_layer_of_an_earlier_version():
    head = models.make_head(label_smoothing=SHARE)
    config = head.get_config()
    assert config.pop("smoothing_prior") is None
    loaded = type(head).from_config(config)
    assert loaded.smoothing_prior is None
    assert loaded.label_smoothing == SHARE


def test_it_grows():
    prior = PRIOR / 3
    x, y = models.make_data()
    model = models.compile_form(label_smoothing=SHARE, smoothing_prior=prior)
    model.fit(x, y, verbose=0)
    tree = models.TREE.grow(["a", "b", "c"])
    grown = tf_hsm.grow(model, tree)
    want = [*prior, *[prior.mean()] * 3]
    np.testing.assert_array_equal(models.head_of(grown).smoothing_prior, want)
    smoothed = expected_loss(grown, x, y, want)
    grown.optimizer.learning_rate = 0.0
    history = grown.fit(x, y, batch_size=len(x), verbose=0).history
    np.testing.assert_allclose(history["loss"], smoothed, rtol=1e-5)


@pytest.mark.parametrize(
    ("prior", "message"),
    [
        (PRIOR[:-1], "smoothing_prior: counts has 29 entries; .* 30 classes"),
        ([], "smoothing_prior: counts is empty"),
        (PRIOR[:, None], "smoothing_prior: counts must have rank 1"),
        ("words", "smoothing_prior: counts must have rank 1"),
        (PRIOR - 1, "smoothing_prior: the count of class 0 is -1"),
        (PRIOR * np.nan, "smoothing_prior: the count of class 0 is nan"),
        (PRIOR + np.inf, "smoothing_prior: the count of class 0 is inf"),
        (0 * PRIOR, "smoothing_prior: all counts are zero"),
    ],
)
def test_bad_priors(prior, message):
    with pytest.raises(ValueError, match=message):
        models.make_head(label_smoothing=SHARE, smoothing_prior=prior)


def test_refusals():
    with pytest.raises(ValueError, match="smoothing_prior is for a label_smo"):
        models.make_head(smoothing_prior=PRIOR)
    with pytest.raises(ValueError, match="focal_gamma needs the label's"):
        models.make_head(**OPTIONS, focal_gamma=1.0)
