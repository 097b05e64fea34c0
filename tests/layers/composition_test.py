"""What a layer is made of: options by name, an optimizer, a head."""

import json

import keras
import numpy as np
import pytest

import tf_hsm
from tests.support.models import TREE, WIDTH, make_head
from tests.support.training import layer_step
from tf_hsm import CostModel, layers, optimizers
from tf_hsm.distribute import Plan
from tf_hsm.layers.layer_arguments import documented

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


ROW_OPTIONS = {
    "kernel_regularizer": keras.regularizers.L2(0.03),
    "bias_regularizer": keras.regularizers.L1(0.02),
    "kernel_constraint": keras.constraints.MaxNorm(0.2, axis=1),
    "bias_constraint": keras.constraints.NonNeg(),
}
CONFIGS = [
    (
        layers.HierarchicalSoftmax,
        {
            "tree": tf_hsm.Tree.balanced(9, 3),
            "use_bias": False,
            "ignore_class": np.int64(3),
            "kernel_initializer": keras.initializers.HeNormal(seed=1),
            "bias_initializer": "ones",
            "dtype": "mixed_bfloat16",
            "trainable": False,
            "name": "words",
            **ROW_OPTIONS,
        },
    ),
    (
        layers.HierarchicalSoftmax,
        {
            "tree": TREE,
            "optimizer": optimizers.Adagrad(
                keras.optimizers.schedules.CosineDecay(0.1, 100),
                initial_accumulator_value=0.3,
            ),
            "stochastic_rounding": True,
            "seed": np.int64(9),
            "dtype": "bfloat16",
        },
    ),
    (
        layers.EmbeddingSoftmax,
        {
            "tree": TREE,
            "num_embeddings": 9,
            "width": 4,
            "optimizer": "rowwise_adagrad",
            "combiner": "sum",
            "padding_id": np.int64(7),
        },
    ),
    (
        layers.AdaptiveSoftmax,
        {
            "num_classes": np.int64(30),
            "cutoffs": "auto",
            "div_value": np.float32(1.5),
            "counts": np.arange(30) % 7,
            "tail": np.int64(3),
            "batch": np.int64(64),
            "cost_model": CostModel(call=0.0, weight=1e-3),
            "optimizer": optimizers.LazyAdam(
                0.02, sparse_beta_1=0.7, epsilon=1e-3
            ),
        },
    ),
    (
        layers.AdaptiveSoftmax,
        {
            "num_classes": 30,
            "cutoffs": [5, 21],
            "tail": [3, tf_hsm.Tree.huffman(range(9), pinned=True)],
            **ROW_OPTIONS,
        },
    ),
    *(
        (
            layers.SampledSoftmax,
            {
                "num_classes": np.int64(30),
                "num_sampled": np.int64(9),
                "sampler": "log_uniform" if counts is None else "counts",
                "counts": counts,
                "power": np.float32(0.5),
                "seed": np.int64(7),
                "ignore_class": np.int64(-1),
                "name": "words",
                **ROW_OPTIONS,
            },
        )
        for counts in (None, np.arange(30), np.arange(30) / 7)
    ),
]


AS_GIVEN = {
    *("tree", "name", "trainable", "seed", "stochastic_rounding", "power"),
    *("ignore_class", "combiner", "padding_id", "num_embeddings", "width"),
    *("cutoffs", "sampler"),
}


@pytest.mark.parametrize("kind, options", CONFIGS)
def test_config(kind, options):
    """The arguments survive JSON, NumPy's numbers among them."""
    head = kind(**options)
    config = head.get_config()
    copy = kind.from_config(json.loads(json.dumps(config)))
    assert copy.get_config() == config
    for name, value in options.items():
        if name == "dtype":
            assert copy.dtype_policy.name == value
        elif name in AS_GIVEN:
            assert getattr(copy, name) == value
        elif name.endswith("_initializer"):
            given = keras.initializers.get(value)
            assert config[name] == keras.initializers.serialize(given)
        elif name in ROW_OPTIONS:
            kept = getattr(copy, name)
            assert type(kept) is type(value)
            assert kept.get_config() == value.get_config()
    if "optimizer" in options:
        assert copy.optimizer is not head.optimizer
        assert copy.optimizer.get_config() == head.optimizer.get_config()


@pytest.mark.parametrize("rate", [0.0, 1.0])
def test_another_optimizer(rate):
    """The layer's optimizer may be assigned: it steps, and it is saved."""
    head = make_head(optimizer=optimizers.SGD(0.5))
    head.build([None, WIDTH])
    head.optimizer = optimizers.SGD(rate)
    head.optimizer.build(head.row_variables())
    before = head.kernel.numpy()
    layer_step(head, X, LABELS)
    assert (head.kernel.numpy() == before).all() == (rate == 0)
    config = head.get_config()["optimizer"]["config"]
    assert config["learning_rate"] == rate


@pytest.mark.parametrize(
    "name", ["label_smoothing", "seed", "use_bias", "class_weights"]
)
def test_other_options_are_fixed(name):
    head = make_head(class_weights={3: 2.0})
    with pytest.raises(ValueError, match="read-only"):
        head.class_weights[3] = 5.0
    with pytest.raises(AttributeError, match=rf"{name} is fixed when the lay"):
        setattr(head, name, 1)
    if name == "label_smoothing":
        with pytest.raises(AttributeError, match="a LabelTree has no label_"):
            _ = layers.LabelTree(TREE).label_smoothing


def test_attributes_of_a_subclass():
    """Names that other layers have mean nothing here."""

    class Named(layers.HierarchicalSoftmax):
        def __init__(self, tree):
            super().__init__(tree)
            self.width = 99

    head = Named(TREE)
    head.build([None, WIDTH])
    assert head.kernel.shape[1] == WIDTH


def test_symbolic_outputs():
    """Shapes and types are known before any value is."""
    shape = (None, 5, WIDTH)
    inputs = keras.Input(shape[1:])
    for labels_shape in ([5], [5, 1], [None]):
        head = make_head()
        outputs = head(inputs)
        losses = head(inputs, keras.Input(labels_shape, dtype="int32"))
        assert outputs.shape == head.compute_output_shape(shape) == shape
        assert losses.shape == shape[:-1]
        assert head.compute_output_shape(shape, shape[:-1]) == shape[:-1]
        assert outputs.dtype == losses.dtype == "float32"
    embeds = layers.EmbeddingSoftmax(TREE, num_embeddings=9, width=3)
    for shape in ([None], [None, 4], [(None, 4), (None, 4)]):
        assert embeds.compute_output_shape(shape) == (None, 3)
        assert embeds.compute_output_shape(shape, [None]) == (None,)


def test_docstrings():
    """Shared texts stand in them; Python -OO has none."""
    assert "focal_gamma: " in layers.HierarchicalSoftmax.__doc__
    assert "{" not in layers.HierarchicalSoftmax.__doc__
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
