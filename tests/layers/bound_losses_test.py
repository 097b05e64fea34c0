"""Losses and metrics belong to one head: in files, copies and clones too."""

import copy
import gc
import pickle

import keras
import numpy as np
import pytest
import tensorflow as tf

import tf_hsm
from tests.support.models import (
    NUM_CLASSES,
    STEPS,
    WIDTH,
    hidden_layers,
    make_data,
    make_head,
    sampled_head,
    sequential,
    sgd,
    train,
)
from tf_hsm import metrics

TOKENS, LABELS = make_data()
OTHER_TREE = tf_hsm.Tree.two_level(7)


def compiled(model, head):
    model.compile(
        keras.optimizers.SGD(0.1),
        head.loss,
        metrics=[metrics.Perplexity(head)],
        weighted_metrics=[metrics.TopKAccuracy(head, 3)],
    )
    return model


def functional():
    tokens = keras.Input([STEPS], dtype="int32")
    head = make_head(name="words")
    return compiled(
        keras.Model(tokens, head(sequential(*hidden_layers())(tokens))), head
    ), LABELS


@keras.saving.register_keras_serializable("tests")
class Subclassed(keras.Model):
    """Its head has another name in every copy."""

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.below, self.head = sequential(*hidden_layers()), make_head()

    def call(self, tokens):
        return self.head(self.below(tokens))


def subclassed():
    model = Subclassed()
    return compiled(model, model.head), LABELS


def two_heads():
    words, tags = (
        make_head(name="words"),
        make_head(OTHER_TREE, name="tags"),
    )
    tokens = keras.Input([STEPS], dtype="int32")
    hidden = sequential(*hidden_layers())(tokens)
    model = keras.Model(tokens, [words(hidden), tags(hidden)])
    model.compile(
        keras.optimizers.SGD(0.1),
        {"words": words.loss, "tags": tf_hsm.losses.HeadLoss(tags, "sum")},
        metrics={
            head.name: [metrics.Perplexity(head), metrics.TopKAccuracy(head, 2)]
            for head in (words, tags)
        },
    )
    return model, {"words": LABELS, "tags": LABELS % 7}


def nested():
    """A model within a model has the head."""
    head = make_head(name="words")
    inner = sequential(*hidden_layers(), head)
    tokens = keras.Input([STEPS], dtype="int32")
    return compiled(keras.Model(tokens, inner(tokens)), head), LABELS


MODELS = {
    "functional": functional,
    "subclassed": subclassed,
    "two_heads": two_heads,
    "nested": nested,
}


def evaluate(model, labels):
    return model.evaluate(TOKENS, labels, verbose=0, return_dict=True)


def in_a_file(model, folder):
    model.save(folder / "model.keras")
    return keras.models.load_model(folder / "model.keras")


COPIES = {
    "file": in_a_file,
    "deepcopy": lambda model, _: copy.deepcopy(model),
    "pickle": lambda model, _: pickle.loads(pickle.dumps(model)),
}


@pytest.mark.parametrize("way", COPIES)
@pytest.mark.parametrize("name", MODELS)
def test_copies_have_losses_of_their_own(name, way, tmp_path):
    """Heads of the same names, which live too, change nothing."""
    model, labels = MODELS[name]()
    model.fit(TOKENS, labels, verbose=0)
    others = [MODELS[name]()[0]]
    made = COPIES[way](model, tmp_path)
    others.append(MODELS[name]()[0])
    expected = evaluate(model, labels)
    assert evaluate(made, labels) == expected
    model.fit(TOKENS, labels, verbose=0)
    assert evaluate(made, labels) == expected
    after = evaluate(model, labels)
    assert after["loss"] != expected["loss"]
    made.fit(TOKENS, labels, verbose=0)
    for metric, value in evaluate(made, labels).items():
        np.testing.assert_allclose(value, after[metric], rtol=1e-5)


def test_the_head_of_another_model():
    """A clone has a head, and so a loss, of its own."""
    model, labels = functional()
    head, clone = model.get_layer("words"), keras.models.clone_model(model)
    other = clone.get_layer("words")
    for options in (
        {"loss": head.loss},
        {"loss": other.loss, "metrics": [metrics.Perplexity(head)]},
    ):
        clone.compile("sgd", **options)
        for entry in (clone.fit, clone.evaluate):
            with pytest.raises(
                ValueError,
                match="of the head 'words' of another model; compile it with "
                r"words\.loss",
            ):
                entry(TOKENS, labels, verbose=0)
    compiled(clone, other).set_weights(model.get_weights())
    assert evaluate(clone, labels) == evaluate(model, labels)


def test_two_heads_of_one_name(tmp_path):
    """Each has its loss, but a file could not tell one from the other."""
    tokens = keras.Input([STEPS], dtype="int32")
    heads = make_head(name="words"), make_head(name="words")
    inner = [sequential(*hidden_layers(), head) for head in heads]
    model = keras.Model(tokens, [one(tokens) for one in inner])
    model.compile("sgd", [head.loss for head in heads])
    labels = [LABELS, LABELS]
    found = evaluate(model, labels)
    losses = [
        head.loss(LABELS, one(TOKENS))
        for head, one in zip(heads, inner, strict=True)
    ]
    np.testing.assert_allclose(found["loss"], sum(losses), rtol=1e-5)
    loaded = in_a_file(model, tmp_path)
    with pytest.raises(ValueError, match="2 heads of the name 'words'"):
        evaluate(loaded, labels)
    own = [one.layers[-1] for one in loaded.layers[1:]]
    loaded.compile("sgd", [head.loss for head in own])
    predicted = loaded.predict(TOKENS, verbose=0)
    np.testing.assert_array_equal(predicted, model.predict(TOKENS, verbose=0))


def test_two_heads():
    """Each output has the losses and the perplexity of its head."""
    model, labels = two_heads()
    found = evaluate(model, labels)
    hidden, kept = model.layers[1](TOKENS).numpy(), TOKENS != 0
    for name, its in labels.items():
        losses = model.get_layer(name)(hidden[kept], its[kept]).numpy()
        total = losses.sum() if name == "tags" else losses.mean()
        np.testing.assert_allclose(
            [found[f"{name}_loss"], found[f"{name}_perplexity"]],
            [total, np.exp(losses.mean())],
            rtol=1e-5,
        )


@pytest.mark.parametrize(
    "make, form",
    [
        (make_head, "compile"),
        (make_head, "endpoint"),
        (sampled_head, "compile"),
    ],
)
def test_one_head_used_twice(make, form):
    """The slices of both uses add up; each use has a draw of its own."""
    rng = np.random.default_rng(0)
    x = [*rng.normal(size=[2, 8, WIDTH]).astype("f4")]
    y = [*rng.integers(NUM_CLASSES, size=[2, 8])]
    inputs = [keras.Input([WIDTH]) for _ in x]
    labels = [keras.Input([], dtype="int64") for _ in y]
    head = make()
    if form == "compile":
        model = keras.Model(inputs, [head(i) for i in inputs])
        model.compile(sgd(), [head.loss, head.loss])
        data = {"x": x, "y": y}
    else:
        losses = [head(i, j) for i, j in zip(inputs, labels, strict=True)]
        model = keras.Model([inputs, labels], losses)
        model.compile(sgd())
        data = {"x": [x, y]}
    rows, start = head.row_variables(), head.get_weights()
    with tf.GradientTape() as tape:
        total = sum(map(head.loss, y, x))
    slopes = tape.gradient(total, [v.value for v in rows])
    pairs = zip(rows, slopes, strict=True)
    moved = [v - tf.convert_to_tensor(slope) for v, slope in pairs]
    head.set_weights(start)
    np.testing.assert_allclose(train(model, **data, epochs=1), [total], 1e-5)
    for variable, its in zip(rows, moved, strict=True):
        np.testing.assert_allclose(variable, its, atol=1e-5)


def test_a_deleted_head():
    head = make_head(name="words")
    loss, metric = head.loss, metrics.Perplexity(head)
    hidden = head(np.zeros([2, WIDTH], "f4"))
    del head
    gc.collect()
    for call in (loss, metric.update_state):
        with pytest.raises(ValueError, match="the head 'words' of this loss"):
            call(np.array([1, 2]), hidden)


BETWEEN = {
    "copy": lambda: keras.layers.Lambda(tf.identity),
    "slice": lambda: keras.layers.Lambda(lambda hidden: hidden[:, :3]),
    "dropout": lambda: keras.layers.Dropout(0.5, seed=3),
}


@pytest.mark.parametrize("own", [False, True])
@pytest.mark.parametrize("name", BETWEEN)
def test_a_layer_between_head_and_loss(name, own):
    """It may as well be below the head."""
    x = np.random.default_rng(0).normal(size=[*TOKENS.shape, WIDTH])
    labels = LABELS[:, :3] if name == "slice" else LABELS
    runs = []
    for is_below in (False, True):
        head = make_head(
            kernel_initializer=keras.initializers.RandomNormal(seed=1),
            optimizer=tf_hsm.optimizers.SGD(0.1) if own else None,
        )
        layers = [BETWEEN[name](), head]
        model = keras.Sequential(
            [keras.Input([STEPS, WIDTH]), *layers[:: 1 if is_below else -1]]
        )
        compiled(model, head)
        history = model.fit(
            x, labels, epochs=2, batch_size=8, shuffle=False, verbose=0
        ).history
        logs = model.evaluate(x, labels, verbose=0)
        assert history["loss"][1] < history["loss"][0]
        runs.append([*history.values(), logs, head.kernel.numpy()])
    for one, other in zip(*runs, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-6)
