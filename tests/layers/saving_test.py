"""Models with heads of all kinds: saved, loaded, cloned and exported."""

import functools

import keras
import numpy as np
import pytest
import tensorflow as tf

import tf_hsm
from tests.support import embedding_softmaxes as softmaxes
from tests.support.in_place_models import (
    arguments,
    assert_goes_on,
    everything,
    fit,
    make_adaptive,
    make_model,
    own_variables,
    same_start,
)
from tests.support.models import (
    NUM_CLASSES,
    TREE,
    WIDTH,
    head_of,
    make_data,
    make_head,
    sampled_head,
)
from tests.support.training import assert_same
from tests.support.update_rules import OPTIMIZERS
from tf_hsm import layers, optimizers, serving

PINNED = tf_hsm.Tree.huffman(1 + np.arange(NUM_CLASSES) ** 2, pinned=True)
# Faster where a graph would show nothing more.
EAGERLY = {"run_eagerly": True}


MAKE = {
    "tree": make_head,
    "pinned": lambda **options: make_head(PINNED, **options),
    "adaptive": make_adaptive,
    "sampled": sampled_head,
    "label_tree": lambda **options: layers.LabelTree(TREE, **options),
}


def model_of(name, form, rule, own=True, decays=False, **options):
    """A model whose head is of a kind, and what it trains on.

    `own` and `decays` say whether the head has an optimizer of its own.
    """
    if name == "embedding":
        if own:
            options["optimizer"] = OPTIMIZERS[rule]()
        layer = softmaxes.make_layer(**options)
        kind = "ragged" if form == "compile" else "weighted"
        model = softmaxes.make_model(layer, kind, form, OPTIMIZERS[rule]())
        model.run_eagerly = True
        inputs, labels = softmaxes.make_inputs(kind), softmaxes.make_labels()
        return model, arguments(form, inputs, labels)
    tokens, labels = make_data()
    if name == "label_tree":
        labels = labels[..., np.newaxis]
    labels[:3, 0] = -1
    options.setdefault("compiling", EAGERLY)
    if name != "label_tree":
        options["ignore_class"] = -1
    make = MAKE[name]
    if decays:
        make, own = functools.partial(make, optimizer=decaying()), False
    model = make_model(form, rule, own, make=make, **options)
    return model, arguments(form, tokens, labels)


def by_keras(model, other, folder):
    """Another model is loaded."""
    model.save(folder / "model.keras")
    loaded = keras.models.load_model(folder / "model.keras")
    assert head_of(loaded).get_config() == head_of(model).get_config()
    return loaded


def by_weights(model, other, folder):
    model.save_weights(folder / "model.weights.h5")
    other.optimizer.build(other.trainable_variables)
    other.load_weights(folder / "model.weights.h5")
    return other


def by_checkpoint(model, other, folder):
    path = tf.train.Checkpoint(model=model).save(folder / "checkpoint")
    other.optimizer.build(other.trainable_variables)
    tf.train.Checkpoint(model=other).restore(path).assert_consumed()
    return other


def decaying():
    """Keras' config of an optimizer does not have what does not decay."""
    optimizer = optimizers.LazyAdam(0.01, weight_decay=10.0)
    optimizer.exclude_from_weight_decay(var_names=["bias"])
    return optimizer


# The random numbers of the rounding follow from the seed and the step.
ROUNDED = {"dtype": "bfloat16", "seed": 5}
IN_GRAPHS = {**ROUNDED, "compiling": {}}
DECAYS, PLAIN = {"decays": True}, {"own": False}


@pytest.mark.parametrize(
    "name, form, rule, way, options",
    [
        ("tree", "endpoint", "sgd", by_keras, {}),
        ("tree", "compile", "adagrad", by_keras, {}),
        ("tree", "endpoint", "rowwise_adagrad", by_keras, {}),
        ("tree", "compile", "lazy_adam", by_keras, {}),
        ("tree", "endpoint", "rmsprop", by_keras, {}),
        ("tree", "compile", "lion", by_keras, {}),
        ("tree", "compile", "adagrad", by_weights, {}),
        ("tree", "endpoint", "lazy_adam", by_checkpoint, {}),
        ("tree", "compile", "rmsprop", by_keras, PLAIN),
        ("tree", "compile", "rmsprop", by_weights, PLAIN),
        ("tree", "endpoint", "lazy_adam", by_keras, IN_GRAPHS),
        ("tree", "endpoint", "lazy_adam", by_keras, DECAYS),
        ("adaptive", "compile", "rowwise_adagrad", by_keras, {}),
        ("adaptive", "compile", "lazy_adam", by_checkpoint, {}),
        ("adaptive", "endpoint", "lazy_adam", by_keras, ROUNDED),
        ("adaptive", "endpoint", "lazy_adam", by_keras, DECAYS),
        ("pinned", "compile", "rowwise_adagrad", by_keras, {}),
        ("pinned", "compile", "rowwise_adagrad", by_keras, PLAIN),
        ("label_tree", "compile", "lazy_adam", by_keras, {}),
        ("embedding", "compile", "lazy_adam", by_keras, {}),
        ("embedding", "endpoint", "rowwise_adagrad", by_keras, ROUNDED),
        # Draws go on from where they were.
        ("sampled", "endpoint", "rowwise_adagrad", by_keras, PLAIN),
        ("sampled", "compile", "lazy_adam", by_checkpoint, PLAIN),
    ],
)
def test_training_goes_on(name, form, rule, way, options, tmp_path):
    """To the same bits as without the interruption."""
    model, data = model_of(name, form, rule, **options)
    other, _ = model_of(name, form, rule, **options)
    fit(model, data, epochs=1)
    loaded = way(model, other, tmp_path)
    assert loaded.evaluate(**data, verbose=0) == model.evaluate(
        **data, verbose=0
    )
    assert_goes_on(loaded, model, data)


@pytest.mark.parametrize("form", ["compile", "endpoint"])
def test_loading_without_tf_hsm(form, tmp_path, monkeypatch):
    """Keras' error ends with what to do."""
    model_of("tree", form, "sgd")[0].save(tmp_path / "model.keras")
    registered = keras.saving.get_custom_objects()
    monkeypatch.delitem(registered, "tf_hsm>HierarchicalSoftmax")
    message = r"Could not locate class 'Hier.*import tf_hsm first.{,999}$"
    with pytest.raises(TypeError, match=message):
        keras.models.load_model(tmp_path / "model.keras")


each_head = pytest.mark.parametrize("name", ["tree", "adaptive"])


@each_head
@pytest.mark.parametrize("form", ["compile", "endpoint"])
def test_clone(name, form):
    """A clone has a head and an optimizer of its own, as they begin."""
    model, data = model_of(name, form, "lazy_adam")
    fit(model, data, epochs=1)
    clone = keras.models.clone_model(model)
    head = head_of(clone)
    assert head is not head_of(model)
    loss = {"loss": head.loss} if form == "compile" else {}
    clone.compile(OPTIMIZERS["lazy_adam"](), **loss, **EAGERLY)
    one, other = head_of(model).optimizer, head.optimizer
    assert one is not other and int(other.iterations) == 0
    assert one.get_config() == other.get_config()
    same_start(model, clone)
    np.testing.assert_array_equal(clone(data["x"]), model(data["x"]))
    before = everything(model)
    fit(clone, data, epochs=1)
    assert_same(everything(model), before)


@each_head
def test_files_of_heads_without_an_optimizer(name, tmp_path):
    """Each kind reads the weights of the other, although Keras sorts them."""
    plain, own = (model_of(name, "compile", "sgd", k)[0] for k in (0, 1))
    rng = np.random.default_rng(0)
    inputs = rng.normal(size=[30, WIDTH]).astype("f4")
    path = tmp_path / "model.weights.h5"
    for source, target in ((plain, own), (own, plain)):
        for variable in head_of(source).weights:
            variable.assign(rng.normal(size=variable.shape))
        # Without the optimizers, which have other variables.
        keras.Model(source.inputs, source.outputs).save_weights(path)
        keras.Model(target.inputs, target.outputs).load_weights(path)
        heads = [head_of(target), head_of(source)]
        assert_same(*map(own_variables, heads))
        assert_same(*(head(inputs, np.arange(30)) for head in heads))


def test_weights_of_another_shape_are_refused():
    head = make_adaptive()
    head.build([None, 6])
    store = own_variables(head)
    with pytest.raises(ValueError, match=r"has 7 variables, but .* 8: adapt"):
        head.load_own_variables({k: v for k, v in store.items() if k != "0"})
    store["1"] = store["1"][1:]
    with pytest.raises(ValueError, match=r"head_bias is of .*shape \(7,\)"):
        head.load_own_variables(store)


@each_head
def test_exported_models_do_not_train(name, tmp_path):
    """Both kinds of SavedModel give losses, and hold no training step."""
    model, data = model_of(name, "endpoint", "lazy_adam")
    fit(model, data, epochs=1)
    losses = model.predict(data["x"], verbose=0)
    tokens, labels = data["x"]
    inputs = [tf.constant(tokens, tf.int32), tf.constant(labels)]
    model.export(tmp_path / "exported", verbose=False)
    tf.saved_model.save(model, tmp_path / "saved")
    exported = tf.saved_model.load(tmp_path / "exported")
    saved = tf.saved_model.load(tmp_path / "saved")
    signature = saved.signatures["serving_default"]
    for _ in range(2):
        np.testing.assert_allclose(exported.serve(inputs), losses, rtol=1e-6)
        served = signature(inputs=inputs[0], inputs_1=inputs[1])["output_0"]
        np.testing.assert_allclose(served, losses, rtol=1e-6)
    graphs = [exported.serve.concrete_functions[0].graph, signature.graph]
    for graph in graphs:
        functions = graph.as_graph_def().library.function
        types = {node.op for f in functions for node in f.node_def}
        types |= {op.type for op in graph.get_operations()}
        assert "ResourceTfHsmLoss" in types
        assert "ResourceTfHsmLossStep" not in types


@pytest.mark.parametrize(
    "cutoffs, built", [("auto", False), (2, True), ([4, 11], False)]
)
def test_cutoffs(cutoffs, built, tmp_path):
    """They and the order of the classes are saved, chosen or not yet."""
    counts = np.random.default_rng(0).integers(1, 99, size=NUM_CLASSES)
    head = layers.AdaptiveSoftmax(
        NUM_CLASSES, cutoffs=cutoffs, div_value=1.5, counts=counts, tail=3
    )
    model = keras.Sequential([keras.layers.Dense(16), head])
    x = np.random.default_rng(1).normal(size=[6, 12]).astype("f4")
    if built:
        model(x)
    model.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    model(x)
    loaded(x)
    if built:
        assert_same(loaded.variables, model.variables)
    order = np.argsort(-counts, kind="stable")
    for other in (loaded, keras.models.clone_model(model)):
        copy = other.layers[-1]
        assert [*copy.cutoffs] == [*head.cutoffs] and head.cutoffs
        np.testing.assert_array_equal(
            copy.clusters.order.class_rows[order], np.arange(NUM_CLASSES)
        )


def test_an_export_of_weighted_bags(tmp_path):
    """A server takes ids and weights, and answers as the layer does."""
    layer = softmaxes.make_layer(optimizer="sgd")
    model = softmaxes.make_model(layer, "weighted")
    serving.export(model, tmp_path / "1", k=3)
    served = tf.saved_model.load(tmp_path / "1").signatures["serving_default"]
    data = softmaxes.make_inputs("weighted")
    ids, weights = map(tf.constant, data)
    answers = served(ids=ids, weights=weights)
    expected = layer.top_k(data, 3)
    assert_same(answers["classes"], expected.classes)
    assert_same(answers["log_probs"], expected.log_probs)


def test_export_of_ragged_inputs_is_refused(tmp_path):
    model = softmaxes.make_model(softmaxes.make_layer(), "ragged")
    with pytest.raises(ValueError, match=r"ragged input 'ids'.* padded"):
        serving.export(model, tmp_path / "1")
    assert not any(tmp_path.iterdir())


def test_copies_of_embeddings():
    """`copy_weights` has the table and its slots too."""
    layer, other = (softmaxes.make_layer(optimizer="adagrad") for _ in "ab")
    model = softmaxes.make_model(layer, "padded")
    softmaxes.make_model(other, "padded")
    model.run_eagerly = True
    inputs = softmaxes.make_inputs("padded")
    fit(model, {"x": inputs, "y": softmaxes.make_labels()})
    tf_hsm.distribute.copy_weights(layer, other)
    assert_same(softmaxes.state(other), softmaxes.state(layer))
