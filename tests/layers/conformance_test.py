"""Every option of every head: what it minimizes, its gradient, its step, files.

The oracle is `tests/support/head_oracle.py`.
"""

import json

import keras
import numpy as np
import pytest
import tensorflow as tf

from tests.support import head_oracle
from tests.support.head_options import (
    CASES,
    HEADS,
    LACKS,
    OPTIONS,
    PRIOR,
    assert_close,
    built,
    drawn,
    expected,
    make_inputs,
    make_labels,
    slopes,
    variables_of,
)
from tests.support.in_place_models import make_adaptive
from tests.support.models import NUM_CLASSES, TREE, WIDTH, make_head
from tf_hsm.metrics import Perplexity

# How the losses are asked for, and whether they are followed by a step. Each
# case has two ways, in which both values of both are.
WAYS = [
    [("compile", False), ("endpoint", True)],
    [("endpoint", False), ("compile", True)],
]
GIVEN = ["nothing", "mask", "weights of inputs", "weights of labels"]


def asked(head, form, inputs, labels, weights, mask):
    """What a head minimizes in a form."""
    if form == "compile":
        return head.loss(labels, head(inputs, inputs_mask=mask), weights)
    head(inputs, labels, weights, inputs_mask=mask)
    (total,) = head.losses
    return total


@pytest.mark.parametrize("name, option", CASES)
def test_losses_gradients_and_steps(name, option):
    """Each case tries two of GIVEN, with arrays or ragged labels.

    Tied and sampled heads make no step in place.
    """
    offset = CASES.index((name, option))
    for number, (form, own) in enumerate(WAYS[offset % 2]):
        given = GIVEN[(offset + number) % len(GIVEN)]
        own = own and name not in ("tied", "sampled")
        is_ragged = (offset // 2 + number) % 2
        check(name, option, form, own, given, is_ragged)


def check(name, option, form, own, given, is_ragged):
    """Compares losses, what is minimized and its slopes with the oracle."""
    head, plain = built(name, option, own), built(name, option)
    labels, inputs = make_labels(head), make_inputs(head)
    mask, weights = drawn(head, labels, given)

    def wanted():
        x = inputs
        if hasattr(plain, "embeddings"):
            x = tf.gather(plain.embeddings.value, inputs)
        return expected(plain, x, labels, mask, weights)

    total, slopes_of = slopes(plain, inputs, lambda: wanted()[0])
    ready, its = labels, weights
    if is_ragged and head.several_labels:
        ready = tf.RaggedTensor.from_tensor(labels, padding=-1)
        if weights is not None and weights.ndim == 2:
            its = tf.ragged.boolean_mask(weights, labels >= 0)
    elif mask is not None:
        ready = np.where(mask[:, np.newaxis], labels, 2**40)
    losses = head(inputs, ready, its, inputs_mask=mask)
    assert_close([losses], [wanted()[1]])
    found, mine = slopes(
        head, inputs, lambda: asked(head, form, inputs, ready, its, mask)
    )
    assert_close([found, *mine], [total, *slopes_of])


@pytest.mark.parametrize("name, option", CASES)
def test_answers(name, option):
    """Options of training change neither answers nor plain losses."""
    head = built(name, option)
    labels, inputs = make_labels(head), make_inputs(head)
    x = head.embed(inputs) if hasattr(head, "embeddings") else inputs
    wanted, rows = head_oracle.log_probs(head, x), head_oracle.Rows(head)
    of_classes = tf.gather(wanted, rows.class_rows, axis=1)
    classes = np.argsort(of_classes)[:, ::7]
    assert_close(
        [head.log_probs(inputs), head.log_prob(classes, inputs)],
        [of_classes, np.take_along_axis(of_classes.numpy(), classes, 1)],
    )
    if not hasattr(head, "clusters"):
        every = np.broadcast_to(np.arange(wanted.shape[1]), wanted.shape)
        assert_close([head.log_probs(inputs, nodes=True)], [wanted])
        if name != "sharded":
            found = head.log_prob(every, inputs, nodes=True)
            assert_close([found], [wanted])
    assert head.log_probs(inputs[:0]).shape == [0, NUM_CLASSES]
    if getattr(head, "node_labels", False):
        rows = np.arange(head.tree.num_rows)
        found = head.hits(np.tile(np.arange(NUM_CLASSES), [rows.size, 1]), rows)
        on_paths = [
            np.isin(rows, head.tree.path(c)) for c in range(NUM_CLASSES)
        ]
        np.testing.assert_array_equal(found, np.transpose(on_paths))
    counts = labels != head.ignore_class
    wanted = head_oracle.losses(
        head, x, np.where(counts, labels, -1), plain=True
    )
    found = head._find_losses(labels, head(inputs), plain=True).losses
    assert_close([found], [wanted])
    if name != "tied":
        config = json.loads(json.dumps(head.get_config()))
        head = type(head).from_config(config)
    for key, value in OPTIONS[option].items():
        np.testing.assert_array_equal(getattr(head, key), value)


@pytest.mark.parametrize(
    "name, option", [(name, o) for name in LACKS for o in sorted(LACKS[name])]
)
def test_lacks(name, option):
    """A head refuses the options that it is not tried with."""
    value = next(its[option] for its in OPTIONS.values() if option in its)
    with pytest.raises(ValueError, match=option):
        HEADS[name](**{option: value})


QUANTIZED = {
    "hierarchical": [
        "ignored",
        "no_bias",
        "several_ignored",
        "nodes",
        "several_nodes",
    ],
    "label_tree": ["ignored", "no_bias"],
}


@pytest.mark.parametrize("given", ["nothing", "mask"])
@pytest.mark.parametrize(
    "name, option",
    [(n, o) for n, options in QUANTIZED.items() for o in options],
)
def test_quantized(name, option, given):
    """The codes stand for rows, which have the same losses."""
    head = built(name, option, dtype="float32")
    head.quantize("int8")
    plain = built(name, option)
    plain.kernel.assign(head.kernel.numpy())
    if plain.bias is not None:
        plain.bias.assign(head.bias)
    labels, inputs = make_labels(plain), make_inputs(plain)
    mask, _ = drawn(plain, labels, given)
    found = head(tf.cast(inputs, "float32"), labels, inputs_mask=mask)
    _, wanted = expected(plain, inputs, labels, mask, None)
    assert_close([found], [wanted], 1e-4)


FITTED = [
    ("hierarchical", "several_nodes_smoothed"),
    ("hierarchical", "several_weights_focal"),
    ("flat", "capped_z_loss_weights"),
    ("flat", "several_smoothed_z_loss"),
    ("pinned", "nodes_to_prior"),
    ("sharded", "several_to_prior"),
    ("embedding", "several_to_prior"),
    ("embedding", "nodes"),
    ("adaptive", "several_to_prior"),
    ("adaptive", "weights"),
    ("sampled", "several_weights_focal"),
    ("label_tree", "ignored"),
]


@pytest.mark.parametrize("name, option", FITTED)
def test_fit(name, option, tmp_path):
    """In graphs, in place as by gradients; a file of a model goes on."""
    ways = [False] if name == "sampled" else [True, False]
    ends = []
    for own in ways:
        head = built(name, option, own)
        labels, inputs = make_labels(head), make_inputs(head).numpy()
        if own:
            head.optimizer.learning_rate = 0.1
        symbol = keras.Input(inputs.shape[1:], dtype=inputs.dtype)
        model = keras.Sequential([symbol, head])
        model.compile(
            keras.optimizers.SGD(0.1),
            loss=head.loss,
            metrics=[Perplexity(head)],
            run_eagerly=own is not ways[0],
        )
        model.fit(inputs, labels, batch_size=4, shuffle=False, verbose=0)
        if own is ways[0]:
            before = head.log_probs(inputs)
            model.save(tmp_path / "model.keras")
            model = keras.models.load_model(tmp_path / "model.keras")
            model.run_eagerly = True
            head = model.layers[-1]
            np.testing.assert_array_equal(head.log_probs(inputs), before)
        model.fit(inputs, labels, batch_size=4, shuffle=False, verbose=0)
        ends.append([v.numpy() for v in variables_of(head)])
        found = model.evaluate(inputs, labels, verbose=0)
        x = head.embed(inputs) if hasattr(head, "embeddings") else inputs
        total, _ = expected(head, x, labels, None, None)
        plain = head._find_losses(labels, head(inputs), plain=True)
        counts = slice(None) if plain.mask is None else plain.mask
        perplexity = np.exp(np.mean(plain.losses[counts]))
        assert_close(found, [total, perplexity])
    assert_close(ends[0], ends[-1])


@pytest.mark.parametrize("option", ["to_prior", "several_weights_focal"])
@pytest.mark.parametrize("name", ["hierarchical", "adaptive"])
def test_grown(name, option):
    """New classes have the mean of the prior, and the class weight 1."""
    head = built(name, option)
    by = {"hierarchical": TREE.grow(2), "adaptive": NUM_CLASSES + 2}
    config = head.grow(by[name]).get_config()
    new = {"smoothing_prior": [PRIOR.mean()] * 2, "class_weights": [1, 1]}
    for key, value in OPTIONS[option].items():
        wanted = np.append(value, new[key]) if key in new else value
        np.testing.assert_array_equal(
            getattr(type(head).from_config(config), key), wanted
        )
    before = head.get_config()
    changed = {key for key in config if config[key] != before[key]}
    assert changed <= {"tree", "num_classes", "tail", "order", *new}


def test_a_tail_that_never_occurs():
    """The prior of a tail without counts is even, and no label is there."""
    probe = built("adaptive", "plain")
    prior = np.where(probe.clusters.order.class_rows < 5, 1.0, 0.0)
    head = make_adaptive(label_smoothing=0.25, smoothing_prior=prior)
    head.build([None, WIDTH])
    losses = head(make_inputs(head)[:3], np.flatnonzero(prior)[:3])
    assert np.isfinite(losses).all()


def test_an_infinite_loss_of_a_class_without_weight():
    """A class that is switched off, and weighs nothing, spoils no other."""
    head = make_head(class_weights={3: 0.0}, focal_gamma=2.0)
    head.build([None, WIDTH])
    bias = head.bias.numpy()
    bias[TREE.class_rows[3]] = -np.inf
    head.bias.assign(bias)
    x = make_inputs(head)[:4]
    total, slopes_of = slopes(
        head, x, lambda: tf.reduce_sum(head(x, np.array([3, 1, 3, 1])))
    )
    for found in (total, *slopes_of):
        assert np.isfinite(tf.convert_to_tensor(found)).all()


@pytest.mark.parametrize("name", ["hierarchical", "adaptive", "sampled"])
def test_a_config_of_an_earlier_version(name):
    """It lacks options that came later."""
    head = HEADS[name]()
    config = head.get_config()
    for key in (
        "class_weights",
        "focal_gamma",
        "node_labels",
        "smoothing_prior",
        "optimizer",
        "stochastic_rounding",
    ):
        config.pop(key, None)
    assert type(head).from_config(config).get_config() == head.get_config()
