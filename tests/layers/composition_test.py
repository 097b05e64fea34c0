"""What a layer is made of: options by name, an optimizer, a head."""

import numpy as np
import pytest
import tensorflow as tf

import tf_hsm
from tests.support.models import TREE, WIDTH, make_head
from tests.support.training import layer_step
from tf_hsm.distribute import Plan
from tf_hsm.heads.bags import BagHead
from tf_hsm.layers import HierarchicalSoftmax, LabelTree
from tf_hsm.layers.layer_arguments import documented
from tf_hsm.optimizers import SGD

RNG = np.random.default_rng(0)
X = RNG.normal(size=[8, WIDTH]).astype("f4")
LABELS = RNG.integers(TREE.num_classes, size=8)


@pytest.mark.parametrize("whole_first", [False, True])
def test_the_prior_of_a_head_and_of_its_copy(whole_first):
    """A head on several devices has a prior for each part, its copy one."""
    head = make_head(
        devices=["CPU:0"] * 2,
        label_smoothing=0.2,
        smoothing_prior=np.arange(TREE.num_classes),
    )
    head.build([None, WIDTH])

    def on_one_device():
        with head.on_one_device():
            return head(X, LABELS)

    first = on_one_device() if whole_first else None
    losses = head(X, LABELS)
    for other in (first, on_one_device()):
        if other is not None:
            np.testing.assert_allclose(losses, other, rtol=1e-5)


@pytest.mark.parametrize("rate", [0.0, 1.0])
def test_another_optimizer(rate):
    """The layer's optimizer may be assigned: it steps, and it is saved."""
    head = make_head(optimizer=SGD(0.5))
    head.build([None, WIDTH])
    head.optimizer = SGD(rate)
    head.optimizer.build(head.row_variables())
    before = head.kernel.numpy()
    layer_step(head, X, LABELS)
    assert (head.kernel.numpy() == before).all() == (rate == 0)
    config = head.get_config()["optimizer"]["config"]
    assert config["learning_rate"] == rate


@pytest.mark.parametrize("name", ["label_smoothing", "seed", "use_bias"])
def test_other_options_are_fixed(name):
    head = make_head()
    with pytest.raises(AttributeError, match=rf"{name} is fixed when the lay"):
        setattr(head, name, 1)
    if name == "label_smoothing":
        with pytest.raises(AttributeError, match="a LabelTree has no label_"):
            _ = LabelTree(TREE).label_smoothing


def test_attributes_of_a_subclass():
    """Names that other layers have mean nothing here."""

    class Named(HierarchicalSoftmax):
        def __init__(self, tree):
            super().__init__(tree)
            self.width = 99

    head = Named(TREE)
    head.build([None, WIDTH])
    assert head.kernel.shape[1] == WIDTH


def test_wrong_calls_name_the_method():
    head = make_head()
    head.build([None, WIDTH])
    with pytest.raises(TypeError, match=r"top_k\(\) takes 3 positional arg"):
        head.top_k(X, 3, 0.1)
    whole = tf_hsm.TreeHead(head.kernel, head.bias, TREE)
    with pytest.raises(TypeError, match=r"TreeHead\.top_k\(\) takes 3 posit"):
        whole.top_k(X, 3, 5)
    with pytest.raises(
        TypeError, match=r"tree must be a tf_hsm\.Tree, but is int"
    ):
        tf_hsm.TreeHead(head.kernel, None, 7)


def test_bags_without_keras():
    """A head of embeddings takes ids, and variables of TensorFlow."""
    table = tf.Variable(RNG.normal(size=[9, WIDTH]))
    weights = tf.Variable(RNG.normal(size=[TREE.num_rows, WIDTH]))
    whole = tf_hsm.TreeHead(weights, None, TREE)
    head = BagHead(table, whole, "mean", None, tf.float64)
    ids = np.array([[1, 2, 2], [3, 4, 8]])
    hidden = table.numpy()[ids].mean(1)
    np.testing.assert_allclose(head.hidden(ids), hidden)
    np.testing.assert_array_equal(
        head.top_k(ids, 3).classes, whole.top_k(hidden, 3).classes
    )


def test_docstrings():
    """Shared texts stand in them; Python -OO has none."""
    assert "focal_gamma: " in HierarchicalSoftmax.__doc__
    assert "{" not in HierarchicalSoftmax.__doc__
    bare = type("Bare", (), {})
    bare.__doc__ = None
    assert documented(bare) is bare


def test_plans_of_earlier_versions():
    """Their steps have other names for the width and the bandwidth."""
    plan = tf_hsm.distribute.plan(TREE, ["CPU:0"] * 2)
    config = plan.get_config()
    step = config["step"]
    config["step"] = {
        {"width": "dim", "bandwidth": "memory"}.get(name, name): value
        for name, value in step.items()
    }
    assert config["step"].keys() != step.keys()
    loaded = Plan.from_config(config, TREE)
    assert loaded == plan and loaded.step == plan.step
