"""Weights are not loaded into a head whose rows stand for other classes.

Files of weights, Keras' legacy `.h5` files and checkpoints.
"""

import gc

import keras
import numpy as np
import pytest
import tensorflow as tf

from tests.support.training import assert_same, layer_step
from tf_hsm import Tree, distribute, layers
from tf_hsm.layers.saved_rows import SavedRows

REFUSED = pytest.raises(ValueError, match="of a head with another tree")
COUNTS = 1 + np.arange(40) ** 2
TREES = (
    Tree.huffman(COUNTS, branching=2),
    Tree.huffman(COUNTS[::-1], branching=2),
)


def embedding(tree, **options):
    return layers.EmbeddingSoftmax(tree, num_embeddings=9, width=3, **options)


def adaptive(counts, **options):
    return layers.AdaptiveSoftmax(
        40, cutoffs=[5, 20], div_value=2, counts=counts, **options
    )


def in_place(tree, **options):
    return layers.HierarchicalSoftmax(tree, optimizer="lazy_adam", **options)


def planned(devices):
    """Heads of one tree, which is cut in one place and the other."""
    tree = Tree.two_level(64)
    plan = distribute.plan(tree, ["CPU:0"] * 2)
    first = [0, *devices, plan.layout.num_units]
    plan = distribute.Plan(
        tree,
        plan.devices,
        unit_rows=plan.layout.unit_rows,
        unit_loads=plan.layout.unit_loads,
        first_units=first,
    )
    return layers.HierarchicalSoftmax(tree, plan=plan)


HEADS = {
    "hierarchical": (layers.HierarchicalSoftmax, TREES),
    "pinned": (layers.HierarchicalSoftmax, [t.pin() for t in TREES]),
    "in_place": (in_place, TREES),
    "label_tree": (layers.LabelTree, TREES),
    "embedding": (embedding, TREES),
    "adaptive": (adaptive, (COUNTS, COUNTS[::-1])),
    "adaptive_in_order": (adaptive, (None, COUNTS)),
}


def model_of(head, nested=False):
    """A body and a head, perhaps in a model within the model."""
    embeds = isinstance(head, layers.EmbeddingSoftmax)
    inputs = keras.Input([], dtype="int64") if embeds else keras.Input([12])
    body = [] if embeds else [keras.layers.Dense(12, name="body")]
    if not nested:
        return keras.Sequential([inputs, *body, head])
    within = keras.Input(inputs.shape[1:], dtype=inputs.dtype)
    inner = keras.Sequential([within, *body, head], name="inner")
    return keras.Model(inputs, inner(inputs))


def head_of(model):
    last = model.layers[-1]
    return last.layers[-1] if isinstance(last, keras.Model) else last


def state_of(model):
    optimizer = head_of(model).optimizer
    slots = [] if optimizer is None else optimizer.variables
    return [v.numpy() for v in (*model.variables, *slots)]


@pytest.mark.parametrize("nested", [False, True])
@pytest.mark.parametrize("name", HEADS)
def test_files(name, nested, tmp_path):
    """Each holds the state of the head's optimizer too."""
    make, (its, another) = HEADS[name]

    def made(tree):
        return model_of(make(tree, name="head"), nested)

    model, other = made(its), made(another)
    if name == "in_place":
        layer_step(head_of(model), np.eye(12, dtype="f4"), np.arange(12))
    before = head_of(other).get_weights()
    assert [w.shape for w in model.weights] == [w.shape for w in other.weights]
    weights, legacy = tmp_path / "model.weights.h5", tmp_path / "model.h5"
    model.save_weights(weights)
    model.save(legacy)
    saved = tf.train.Checkpoint(model=model).save(tmp_path / "saved")
    for load in (
        lambda model: model.load_weights(weights),
        lambda model: model.load_weights(legacy),
        lambda model: model.load_weights(legacy, by_name=True),
        lambda model: tf.train.Checkpoint(model=model).restore(saved),
    ):
        same = made(its)
        load(same)
        assert_same(state_of(same), state_of(model))
        with REFUSED:
            load(other)
    tf.train.Checkpoint(model=made(its)).restore(saved).assert_consumed()
    loaded = keras.models.load_model(legacy)
    assert_same(state_of(loaded), state_of(model))
    with pytest.warns(UserWarning, match="of a head with another tree"):
        other.load_weights(weights, skip_mismatch=True)
    assert_same(head_of(other).get_weights(), before)


@pytest.mark.parametrize("name", HEADS)
def test_saved_models_without_warnings(name, tmp_path, caplog):
    """A SavedModel has no record of the order, which it could not restore."""
    make, (its, _) = HEADS[name]
    module = tf.Module()
    module.head = model_of(make(its)).layers[-1]
    tf.saved_model.save(module, str(tmp_path))
    tf.saved_model.load(str(tmp_path))
    gc.collect()  # TensorFlow warns when what it loaded is deleted.
    assert not caplog.records


def test_checkpoints_of_other_cuts(tmp_path):
    """A file of weights is for each cut, TensorFlow's checkpoint for one."""
    model, same, other = (model_of(planned([cut])) for cut in (3, 3, 5))
    path = tf.train.Checkpoint(model=model).save(tmp_path / "saved")
    tf.train.Checkpoint(model=same).restore(path).assert_consumed()
    assert_same(model.variables, same.variables)
    with pytest.raises(ValueError, match="or whose devices had other parts"):
        tf.train.Checkpoint(model=other).restore(path)
    model.save_weights(tmp_path / "model.weights.h5")
    other.load_weights(tmp_path / "model.weights.h5")


def test_files_that_do_not_say(tmp_path, monkeypatch):
    """Files of earlier versions have the variables alone.

    A legacy file is refused: another tree may have weights of the same shapes.
    """
    model, other = (model_of(HEADS["hierarchical"][0](t)) for t in TREES)
    before = head_of(other).get_weights()
    path = tmp_path / "model.h5"
    with monkeypatch.context() as patched:
        patched.setattr(SavedRows, "in_legacy_files", lambda saved: [])
        model.save(path)
    with pytest.raises(ValueError, match=r"expects 3 weight.*Received 2"):
        other.load_weights(path)
    assert_same(head_of(other).get_weights(), before)
    store = {}
    head_of(model).save_own_variables(store)
    del store["row_order"]
    head_of(other).load_own_variables(store)
    assert_same(head_of(model).variables, head_of(other).variables)


@pytest.mark.parametrize("cutoffs", [[20], 1])
def test_checkpoints_before_build(cutoffs, tmp_path):
    """They are refused at once or, if cutoffs are still to be chosen, later."""
    saved, head, other = (
        layers.AdaptiveSoftmax(40, cutoffs=cutoffs, counts=counts)
        for counts in (COUNTS, COUNTS, COUNTS[::-1])
    )
    model_of(saved)
    path = tf.train.Checkpoint(head=saved).save(tmp_path / "saved")
    tf.train.Checkpoint(head=head).restore(path).expect_partial()
    model_of(head)
    assert_same(saved.variables, head.variables)
    checkpoint = tf.train.Checkpoint(head=other)
    if cutoffs == 1:
        checkpoint.restore(path).expect_partial()
    else:
        with REFUSED:
            checkpoint.restore(path)
    for _ in range(2):
        with REFUSED:
            model_of(other)


def test_checkpoints_that_do_not_say(tmp_path):
    """TensorFlow calls those of the versions before partial."""
    saved, head = (layers.HierarchicalSoftmax(tree) for tree in TREES)
    model_of(saved), model_of(head)
    one = tf.train.Checkpoint(kernel=saved.kernel.value, bias=saved.bias.value)
    path = tf.train.Checkpoint(head=one).save(tmp_path / "saved")
    tf.train.Checkpoint(head=head).restore(path).expect_partial()
    np.testing.assert_array_equal(head.kernel, saved.kernel)
