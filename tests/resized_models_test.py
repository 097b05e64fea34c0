"""Models that get a head for more classes, or for fewer, and train on."""

import itertools

import keras
import numpy as np
import pytest

import tf_hsm
from tests.support.in_place_models import (
    arguments,
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
from tests.support.resized_models import (
    CHANGES,
    COUNTS,
    FEW,
    KEEP,
    assert_same_state,
    check_goes_on,
    data_of,
    fit_eagerly,
    of_layers,
    two_heads,
)
from tests.support.update_rules import OPTIMIZERS
from tf_hsm.layers import AdaptiveSoftmax

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
both = pytest.mark.parametrize("name", ["grow", "prune"])


@pytest.mark.parametrize(
    "name, optimizer, own, form, eager",
    [
        ("grow", "rowwise_adagrad", True, "compile", False),
        ("prune", "rowwise_adagrad", True, "compile", True),
        ("drop", "lazy_adam", True, "compile", True),
        ("grow", "lazy_adam", True, "endpoint", True),
        ("prune", "lazy_adam", True, "endpoint", False),
        ("grow", "rowwise_adagrad", False, "compile", True),
        ("prune", "rowwise_adagrad", False, "compile", True),
        ("grow", "momentum", False, "endpoint", True),
        ("prune", "momentum", False, "endpoint", False),
        ("drop", "momentum", False, "endpoint", True),
        ("grow", "scaled", False, "compile", False),
        ("prune", "scaled", False, "compile", True),
        ("grow", "keras_nadam", False, "endpoint", True),
        ("prune", "keras_nadam", False, "endpoint", True),
    ],
)
def test_goes_on(name, optimizer, own, form, eager, tmp_path):
    """Training goes on, in place and by the optimizer of the model."""
    change = CHANGES[name]
    compiling = {"run_eagerly": eager}
    if own:
        model = make_model(form, optimizer, compiling=compiling)
    else:
        made = MODEL_OPTIMIZERS[optimizer]()
        model = make_model(form, own=False, optimizer=made, compiling=compiling)
    is_saved = eager if own else optimizer in ("rowwise_adagrad", "momentum")
    # Data to learn from: the new classes, or the merged ones.
    tokens, labels = make_data()
    labels = np.maximum(change.classes[labels], 0)
    if name == "grow":
        labels = np.where(tokens % 3 == 1, NUM_CLASSES + tokens % 4, labels)
    changed = check_goes_on(
        model,
        change.apply,
        change.rows,
        data_of(form, change),
        # Other classes have other probabilities where one of a group goes.
        None if name == "drop" else data_of(form, change, change.classes),
        arguments(form, tokens, labels),
        tmp_path if is_saved else None,
    )
    assert head_of(changed).tree == change.tree


@both
def test_sequential_model_and_metrics(name):
    """Its layers are others, of the same names; metrics follow."""
    head = make_head(name="words")
    model = sequential(
        keras.layers.Embedding(NUM_CLASSES, WIDTH),
        keras.layers.Dropout(0.5, seed=1),
        head,
    )
    model.compile("adam", head.loss, metrics=[tf_hsm.metrics.Perplexity(head)])
    tokens, labels = make_data()
    fit_eagerly(model, {"x": tokens, "y": labels})
    changed = CHANGES[name].apply(model)
    assert isinstance(changed, keras.Sequential)
    assert [x.name for x in changed.layers] == [x.name for x in model.layers]
    assert changed.layers[0] is not model.layers[0]
    assert changed(tokens).shape == (*labels.shape, WIDTH)
    labels = CHANGES[name].classes[labels]
    history = changed.fit(tokens, labels, verbose=0).history
    assert set(history) == {"loss", "perplexity"}


@pytest.mark.parametrize("name, compiled", [("grow", True), ("drop", False)])
def test_before_training(name, compiled):
    """A model that has no state yet, compiled or not."""
    model = sequential(keras.layers.Embedding(NUM_CLASSES, 4), make_head())
    if compiled:
        model.compile("adam", head_of(model).loss)
    changed = CHANGES[name].apply(model)
    assert changed.compiled == compiled
    sizes = {"grow": NUM_CLASSES + 4, "drop": FEW}
    assert head_of(changed).num_classes == sizes[name]


@both
def test_outputs_that_ask_the_head(name):
    """Answers of the head are answers of the new one."""
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
    change = CHANGES[name]
    changed = change.apply(model)
    num_classes = change.tree.num_classes
    assert changed.output_shape[1] == (None, STEPS, num_classes)
    assert num_classes != NUM_CLASSES
    x, _ = make_data()
    best, log_probs, _, classes = map(np.array, changed(x))
    np.testing.assert_array_equal(best, np.argmax(log_probs, -1))
    np.testing.assert_array_equal(classes[..., 0], best)
    np.testing.assert_array_equal(
        log_probs[..., change.classes[change.trained]],
        np.array(model(x)[1])[..., change.trained],
    )
    assert len(layers_of(changed)) == 2


@both
@pytest.mark.parametrize("is_trained", [True, False])
def test_weight_decay_excludes_the_same(name, is_trained):
    head = make_head()
    model = sequential(keras.layers.Embedding(NUM_CLASSES, WIDTH), head)
    optimizer = keras.optimizers.SGD(0.1, weight_decay=0.5)
    optimizer.exclude_from_weight_decay([head.bias])
    model.compile(optimizer, loss=head.loss)
    tokens, labels = make_data()
    if is_trained:
        fit_eagerly(model, {"x": tokens, "y": labels})
    changed = CHANGES[name].apply(model)
    bias = head_of(changed).bias
    bias.assign(np.full(bias.shape, 3.0))
    kernel = head_of(changed).kernel.numpy()
    variables = changed.trainable_variables
    zeros = [keras.ops.zeros(v.shape) for v in variables]
    changed.optimizer.apply(zeros, variables)
    assert np.any(head_of(changed).kernel.numpy() != kernel)
    np.testing.assert_array_equal(bias.numpy(), 3.0)


@pytest.mark.parametrize("name", ["grow", "drop"])
def test_one_of_two_heads(name):
    model = two_heads()
    changed = CHANGES[name].apply(model, head=model.layers[2])
    sizes = {x.name: x.num_classes for x in changed.layers[1:]}
    new_size = {"grow": NUM_CLASSES + 4, "drop": KEEP.size}[name]
    assert sizes == {"one": NUM_CLASSES, "two": new_size}


def test_a_share_of_the_classes():
    """By the counts of the tree."""
    model = of_layers(make_head(TREE.with_counts(COUNTS)))
    pruned, classes = tf_hsm.prune(model, 0.3)
    np.testing.assert_array_equal(classes, CHANGES["prune"].classes)
    assert head_of(pruned).num_classes == classes.max() + 1


PINNED = tf_hsm.Tree.huffman(COUNTS).pin()
BACKWARDS = np.arange(NUM_CLASSES)[::-1] ** 3


@pytest.mark.parametrize(
    "tree, change, rows",
    [
        *(
            (
                PINNED,
                lambda model, merge=merge: (
                    tf_hsm.prune(model, KEEP, merge=merge).model
                ),
                PINNED.prune(KEEP, merge=merge).rows[::2] // 2,
            )
            for merge in (True, False)
        ),
        (
            TREE,
            lambda model: tf_hsm.grow(
                model, TREE.rebalance(BACKWARDS), counts=BACKWARDS
            ),
            TREE.rebalance(BACKWARDS).map_rows(TREE),
        ),
    ],
)
def test_other_trees(tree, change, rows):
    """A pinned tree stays pinned; a rebalanced one has the same leaves."""
    model = sequential(keras.layers.Embedding(30, WIDTH), make_head(tree))
    model.compile(OPTIMIZERS["lazy_adam"](), head_of(model).loss)
    tokens, labels = make_data()
    fit_eagerly(model, {"x": tokens, "y": labels})
    changed = change(model)
    assert head_of(changed).tree.pinned == tree.pinned
    assert_same_state(changed, model, rows)
    fit_eagerly(changed, {"x": tokens, "y": labels % FEW})


class Subclassed(keras.Model):
    """A model whose layers are not known before it is called."""

    def __init__(self):
        super().__init__(name="mine")
        self.head = make_head()
        self(np.zeros([1, WIDTH], "f4"))

    def call(self, inputs):
        return self.head(inputs)


@keras.saving.register_keras_serializable("tests")
class Around(keras.layers.Layer):
    """A layer with a head of its own within."""

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.head = make_head(name="within")

    def build(self, shape):
        self.head.build(shape)

    def call(self, inputs):
        return self.head(inputs)

    def compute_output_shape(self, shape):
        return shape[:-1]


def trained(optimizer, *below):
    model = of_layers(*below, make_head())
    model.compile(optimizer, head_of(model).loss)
    model.optimizer.build(model.trainable_variables)
    return model


def frozen_since():
    model = trained("adam", keras.layers.Dense(WIDTH, name="dense"))
    model.layers[0].trainable = False
    return model


@both
@pytest.mark.parametrize(
    "make, message",
    [
        (Subclassed, "mine is neither a Sequ.* what head.{verb} returns"),
        (
            lambda: of_layers(Around(name="around")),
            "within is within a layer that only its own class can copy",
        ),
        (
            lambda: of_layers(keras.layers.Dense(3)),
            "has no head of tf_hsm.layers",
        ),
        (two_heads, "has the heads one, two; say by head=... .* {verb}"),
        (
            lambda: trained(keras.optimizers.Adafactor()),
            "adafactor.* has a state of rows together",
        ),
        (
            lambda: trained(keras.optimizers.Adam(use_ema=True)),
            "adam.* has use_ema",
        ),
        (frozen_since, "adam.* was built with other variables"),
    ],
    ids=itertools.count(),
)
def test_refused_models(name, make, message):
    change = CHANGES[name]
    with pytest.raises(ValueError, match=message.format(verb=change.verb)):
        change.apply(make())


def test_an_adaptive_head_is_refused():
    model = of_layers(AdaptiveSoftmax(30, cutoffs=[5], name="adaptive"))
    with pytest.raises(ValueError, match="must be an integer, not Tree"):
        CHANGES["grow"].apply(model)
    with pytest.raises(ValueError, match="prune is not possible for Adaptive"):
        CHANGES["prune"].apply(model)
