"""Models that get a head for more classes, and go on training."""

import itertools

import keras
import numpy as np
import pytest

import tf_hsm
from tests.support.in_place_models import (
    FORMS,
    arguments,
    fit,
    layers_of,
    make_model,
)
from tests.support.models import (
    NUM_CLASSES,
    STEPS,
    TREE,
    WIDTH,
    head_of,
    make_data,
    make_head,
    sequential,
)
from tests.support.update_rules import OPTIMIZERS

# Beside which new classes go, and so which labels are left out: the group has
# no others.
GROUP = TREE.row_groups[TREE.class_rows[0]]
NEAR = np.flatnonzero(TREE.row_groups[TREE.class_rows] == GROUP)
GROWN = TREE.grow(4, near=np.resize(NEAR, 4))
ROWS = GROWN.map_rows(TREE)

MODEL_OPTIMIZERS = {
    "rowwise_adagrad": OPTIMIZERS["rowwise_adagrad"],
    "momentum": lambda: tf_hsm.optimizers.SGD(
        keras.optimizers.schedules.ExponentialDecay(0.1, 3, 0.5), momentum=0.9
    ),
    "scaled": lambda: tf_hsm.optimizers.LossScaleOptimizer(
        tf_hsm.optimizers.LazyAdam(0.02), dynamic_growth_steps=2
    ),
    "keras_nadam": lambda: keras.optimizers.Nadam(
        0.02, gradient_accumulation_steps=2
    ),
}


def data_of(form, tree=TREE):
    """Data without the labels of the group that grows."""
    tokens, labels = make_data()
    is_there = np.isin(labels, NEAR)
    labels[is_there] = np.setdiff1d(np.arange(NUM_CLASSES), NEAR)[0]
    return arguments(form, tokens, labels)


def assert_same_state(grown, model):
    """All weights, kept rows and slots are those of the other model."""
    # Both build their optimizers in the order of their layers.
    optimizers = [[grown.optimizer, model.optimizer]]
    heads = head_of(grown), head_of(model)
    if heads[0].optimizer is not None:
        optimizers.append([head.optimizer for head in heads])
    variables = zip(grown.variables, model.variables, strict=True)
    states = (
        zip(one.variables, other.variables, strict=True)
        for one, other in optimizers
    )
    num_of_rows = 0
    for mine, its in itertools.chain(variables, *states):
        mine, its = mine.numpy(), its.numpy()
        if mine.shape[:1] == (GROWN.num_rows,):
            mine, its = mine[ROWS >= 0], its[ROWS[ROWS >= 0]]
            num_of_rows += 1
        np.testing.assert_array_equal(mine, its)
    assert num_of_rows >= 2


def fit_eagerly(model, data):
    """Makes a state to grow from, of two steps; traces nothing."""
    model.run_eagerly = True
    fit(model, data, epochs=1, batch_size=11)
    model.run_eagerly = False


def check_goes_on(model, form):
    """A grown model trains as the model does where nothing is new."""
    data, two_steps = data_of(form), {"epochs": 1, "batch_size": 11}
    fit(model, data, **two_steps)
    grown = tf_hsm.grow(model, GROWN)
    assert_same_state(grown, model)
    assert head_of(grown).tree == GROWN and head_of(model).tree == TREE
    np.testing.assert_array_equal(
        fit(grown, data, **two_steps), fit(model, data, **two_steps)
    )
    assert_same_state(grown, model)
    # And learns the new classes.
    tokens, labels = make_data()
    labels = np.where(tokens % 3 == 1, NUM_CLASSES + tokens % 4, labels)
    data = arguments(form, tokens, labels)
    losses = fit(grown, data, epochs=6, batch_size=11)
    assert losses[-1] < losses[0]


def in_turns(names):
    """Each with one of the forms."""
    return list(zip(names, itertools.cycle(FORMS), strict=False))


@pytest.mark.parametrize(
    "rule, form", in_turns(["rowwise_adagrad", "lazy_adam"])
)
def test_goes_on_in_place(rule, form):
    check_goes_on(make_model(form, rule), form)


@pytest.mark.parametrize(
    "name, form, eager",
    [
        ("rowwise_adagrad", "compile", True),
        ("momentum", "endpoint", False),
        ("scaled", "compile", False),
        ("keras_nadam", "endpoint", True),
    ],
)
def test_goes_on_with_the_optimizer_of_the_model(name, form, eager):
    model = make_model(
        form,
        own=False,
        optimizer=MODEL_OPTIMIZERS[name](),
        compiling={"run_eagerly": eager},
    )
    check_goes_on(model, form)


@pytest.mark.parametrize("own, form", in_turns([True, False]))
def test_saved_model(own, form, tmp_path):
    """Loaded, grown, trained, saved and loaded again."""
    data, two_steps = data_of(form), {"epochs": 1, "batch_size": 11}
    eagerly = {"run_eagerly": True}
    model = make_model(form, "lazy_adam", own, compiling=eagerly)
    fit(model, data, **two_steps)
    model.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    grown = tf_hsm.grow(loaded, GROWN)
    assert_same_state(grown, model)
    np.testing.assert_array_equal(
        fit(grown, data, **two_steps), fit(model, data, **two_steps)
    )
    grown.save(tmp_path / "grown.keras")
    again = keras.models.load_model(tmp_path / "grown.keras")
    assert head_of(again).tree == GROWN
    np.testing.assert_array_equal(
        fit(again, data, **two_steps), fit(grown, data, **two_steps)
    )


def test_sequential_model_and_metrics():
    head = make_head(name="words")
    model = sequential(
        keras.layers.Embedding(NUM_CLASSES, WIDTH),
        keras.layers.Dropout(0.5, seed=1),
        head,
    )
    model.compile("adam", head.loss, metrics=[tf_hsm.metrics.Perplexity(head)])
    tokens, labels = make_data()
    fit_eagerly(model, {"x": tokens, "y": labels})
    grown = tf_hsm.grow(model, GROWN, counts=np.arange(NUM_CLASSES + 4))
    assert isinstance(grown, keras.Sequential)
    assert [x.name for x in grown.layers] == [x.name for x in model.layers]
    assert grown(tokens).shape == (*labels.shape, WIDTH)
    history = grown.fit(tokens, labels, verbose=0).history
    assert set(history) == {"loss", "perplexity"}


def test_policy_of_the_model():
    """By which Keras scales the loss, whatever the policy is by now."""
    keras.config.set_dtype_policy("mixed_float16")
    try:
        below = keras.Input([WIDTH]), keras.layers.Dense(WIDTH)
        model = keras.Sequential([*below, make_head()])
        model.compile("adam", head_of(model).loss)
    finally:
        keras.config.set_dtype_policy("float32")
    x, labels = np.ones([16, WIDTH], "f4"), np.arange(16)
    fit_eagerly(model, {"x": x, "y": labels})
    grown = tf_hsm.grow(model, GROWN)
    assert isinstance(grown.optimizer, keras.optimizers.LossScaleOptimizer)
    assert_same_state(grown, model)
    assert head_of(grown).compute_dtype == "float16"
    assert keras.config.dtype_policy().name == "float32"


def test_before_training():
    """A model that has no state yet, compiled or not."""
    for compiled in (True, False):
        model = sequential(keras.layers.Embedding(NUM_CLASSES, 4), make_head())
        if compiled:
            model.compile("adam", head_of(model).loss)
        grown = tf_hsm.grow(model, GROWN)
        assert grown.compiled == compiled
        assert head_of(grown).num_classes == NUM_CLASSES + 4


def test_rebalanced_model():
    """Leaves keep weights and slots, in another order."""
    counts = np.arange(NUM_CLASSES)[::-1] ** 3
    tree = TREE.rebalance(counts)
    assert tree != TREE
    model = make_model("compile", "lazy_adam", own=False)
    tokens, labels = make_data()
    fit_eagerly(model, {"x": tokens, "y": labels})
    grown = tf_hsm.grow(model, tree, counts=counts)
    (old_kernel, _), (kernel, _) = (
        head_of(m).get_weights() for m in (model, grown)
    )
    leaves, rows = tree.class_rows, tree.map_rows(TREE)
    np.testing.assert_array_equal(kernel[leaves], old_kernel[rows[leaves]])
    for old, new in zip(
        model.optimizer.slots(head_of(model).kernel),
        grown.optimizer.slots(head_of(grown).kernel),
        strict=True,
    ):
        np.testing.assert_array_equal(
            new.numpy()[leaves], old.numpy()[rows[leaves]]
        )
    losses = fit(grown, {"x": tokens, "y": labels}, epochs=12)
    assert losses[-1] < 0.9 * losses[0]


def test_outputs_that_ask_the_head():
    """Answers of the head are those of the new one."""
    head = make_head()
    tokens = keras.Input([STEPS], dtype="int32")
    hidden = keras.layers.Embedding(NUM_CLASSES, WIDTH)(tokens)
    model = keras.Model(
        tokens,
        [
            head.predict_class(hidden),
            head.log_probs(hidden),
            *head.top_k(hidden, 3),
        ],
    )
    grown = tf_hsm.grow(model, GROWN)
    assert grown.output_shape[1] == (None, STEPS, NUM_CLASSES + 4)
    x, _ = make_data()
    best, log_probs, _, classes = map(np.array, grown(x))
    np.testing.assert_array_equal(best, np.argmax(log_probs, -1))
    np.testing.assert_array_equal(classes[..., 0], best)
    assert len(layers_of(grown)) == 2


@pytest.mark.parametrize(
    "rule, padding, by_name", [("lazy_adam", 0, True), ("adagrad", 2, False)]
)
def test_embeddings(rule, padding, by_name):
    """Tokens grow too: old rows and slots stay, new ones begin as the mean."""
    table = keras.layers.Embedding(NUM_CLASSES + padding, WIDTH, name="tokens")
    below = sequential(table)
    head = make_head()
    tokens = keras.Input([STEPS], dtype="int32")
    model = keras.Model(tokens, head(below(tokens)))
    model.compile(OPTIMIZERS[rule](), head.loss)
    x, y = make_data()
    fit_eagerly(model, {"x": x, "y": y})
    grown = tf_hsm.grow(
        model, GROWN, embeddings=["tokens" if by_name else table]
    )
    (new,) = (x for x in grown._flatten_layers() if x.name == "tokens")
    assert new.input_dim == NUM_CLASSES + padding + 4
    old_rows, rows = (v.get_weights()[0] for v in (table, new))
    np.testing.assert_array_equal(rows[:-4], old_rows)
    np.testing.assert_allclose(
        rows[-4:], np.tile(old_rows.mean(0), [4, 1]), rtol=1e-4, atol=1e-6
    )
    for slot, its in zip(
        grown.optimizer.slots(new._embeddings),
        model.optimizer.slots(table._embeddings),
        strict=True,
    ):
        np.testing.assert_array_equal(slot.numpy()[:-4], its)
        assert np.unique(slot.numpy()[-4:]).size == 1  # as they begin
    fit(grown, {"x": x + padding + 4, "y": y + 4})


def test_weight_decay_excludes_the_same():
    head = make_head()
    model = sequential(keras.layers.Embedding(NUM_CLASSES, WIDTH), head)
    optimizer = keras.optimizers.SGD(0.1, weight_decay=0.5)
    optimizer.exclude_from_weight_decay([head.bias])
    model.compile(optimizer, loss=head.loss)
    tokens, labels = make_data()
    fit_eagerly(model, {"x": tokens, "y": labels})
    grown = tf_hsm.grow(model, GROWN)
    bias = head_of(grown).bias
    bias.assign(np.full(bias.shape, 3.0))
    kernel = head_of(grown).kernel.numpy()
    grown.optimizer.apply(
        [keras.ops.zeros(v.shape) for v in grown.trainable_variables]
    )
    assert np.any(head_of(grown).kernel.numpy() != kernel)
    np.testing.assert_array_equal(bias.numpy(), 3.0)


@pytest.mark.parametrize("name", ["first", "second"])
def test_heads_with_nothing_else_to_train(name):
    """Whichever head grows: the model's optimizer has the anchor of one."""
    inputs = keras.Input([WIDTH])
    heads = [make_head(optimizer="sgd", name=n) for n in ("first", "second")]
    model = keras.Model(inputs, [head(inputs) for head in heads])
    model.compile("sgd", [head.loss for head in heads], run_eagerly=True)
    x, labels = np.ones([4, WIDTH], "f4"), np.arange(4)
    model.fit(x, [labels, labels], verbose=0)
    grown = tf_hsm.grow(model, TREE.grow(2), head=model.get_layer(name))
    others = [grown.get_layer(head.name) for head in heads]
    before = [head.kernel.numpy() for head in others]
    grown.fit(x, [labels, labels], verbose=0)
    for head, old in zip(others, before, strict=True):
        assert (head.kernel.numpy() != old).any()
