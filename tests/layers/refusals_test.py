"""Wrong arguments and calls of layers: an error with the words that help."""

import keras
import numpy as np
import pytest
import tensorflow as tf

import tf_hsm
from tests.support import models
from tests.support.in_place_models import make_adaptive
from tests.support.models import NUM_CLASSES, TREE, WIDTH, make_head
from tf_hsm import Tree, layers, metrics, optimizers

ERRORS = (
    IndexError,
    TypeError,
    ValueError,
    tf.errors.InvalidArgumentError,
)
FLAT = Tree.flat(NUM_CLASSES)
PRIOR = np.arange(NUM_CLASSES) % 7
DEVICES = {"devices": ["CPU:0"] * 2}
MOMENTUM = optimizers.SGD(0.1, momentum=0.9)
X = np.random.default_rng(0).normal(size=[11, WIDTH]).astype("f4")
ONES = np.ones(11, int)
SETS = np.random.default_rng(1).integers(NUM_CLASSES, size=[11, 4])


def head_of(make=make_head, **options):
    head = make(**options)
    head.build([None, WIDTH])
    return head


def embedding_softmax(tree=TREE, **options):
    options = {"num_embeddings": 9, "width": 4, **options}
    return layers.EmbeddingSoftmax(tree, **options)


def label_tree(tree=TREE, **options):
    return layers.LabelTree(tree, **options)


def tails(**options):
    return layers.AdaptiveSoftmax(**{"num_classes": 20, **options})


def built_tails(**options):
    tails(**options).build([None, 12])


def sampled(**options):
    options = {"num_classes": 9, "num_sampled": 4, **options}
    return layers.SampledSoftmax(**options)


def flat(tree=FLAT, **options):
    return make_head(tree, **options)


def tied(embedding=None, tree=FLAT, **options):
    if embedding is None:
        embedding = keras.layers.Embedding(NUM_CLASSES, WIDTH)
    return layers.HierarchicalSoftmax(tree, tied_to=embedding, **options)


def with_lora():
    embedding = keras.layers.Embedding(NUM_CLASSES, WIDTH)
    embedding.build()
    embedding.enable_lora(2)
    return embedding


COUNTS = tf_hsm.LabelCounts.of(TREE, SETS)
PINNED = Tree.huffman(range(11), pinned=True)
NAN, SMOOTHED = np.full(NUM_CLASSES, np.nan), {"label_smoothing": 0.25}
# By constructor: options, and words of the error.
ARGUMENTS = {
    make_head: [
        ({"tree": 30}, "tree must be a tf_hsm.Tree, but is int"),
        ({"tree": [[0, 1], 2]}, "be a tf_hsm.Tree, but is list"),
        ({"ignore_class": 1.5}, "^ignore_class must be an .* is 1.5"),
        ({"ignore_class": True}, "^ignore_class must be an integer"),
        ({"seed": "7"}, "^seed must be an integer"),
        ({"optimizer": "sgd", "seed": 1.5}, "seed"),
        ({"label_smoothing": 2}, r"label_smoothing must be in \[0, 1"),
        ({"smoothing_prior": PRIOR}, "smoothing_prior is for a label_s"),
        ({**SMOOTHED, "focal_gamma": 1.0}, "focal_gamma needs the label's"),
        ({"focal_gamma": -1}, "focal_gamma is -1; it must"),
        ({"focal_gamma": "x"}, "focal_gamma is 'x'; it must"),
        *(
            ({**SMOOTHED, "smoothing_prior": prior}, f"ing_prior: {words}")
            for prior, words in (
                (PRIOR[:-1], "counts has 29 entries; .* 30 classes"),
                ([], "counts is empty"),
                (PRIOR[:, None], "counts must have rank 1"),
                ("words", "counts must have rank 1"),
                (PRIOR - 1, "the count of class 0 is -1"),
                (NAN, "the count of class 0 is nan"),
                (PRIOR + np.inf, "the count of class 0 is inf"),
                (0 * PRIOR, "all counts are zero"),
            )
        ),
        *(
            ({"class_weights": weights}, words)
            for weights, words in (
                ([1, 2], "one for each class, .30., but"),
                (NAN, "weight of class 0 in class_weights is nan"),
                ({0: -1}, "class 0 in .* is -1"),
                ({1: None}, "class 1 in .* is None"),
                ({2: "x"}, "class 2 in .* is 'x'"),
                ({30: 1}, "class 30 is out of range"),
            )
        ),
        ({"class_weights": {3: 2}, "node_labels": True}, "an inner node"),
        ({"z_loss": 0.1, **DEVICES}, "not possible with devices"),
        ({"node_labels": True, **DEVICES}, "node_labels is not possible with"),
        ({"use_bias": False, "counts": PRIOR}, "use_bias is False"),
        ({"counts": [1, 2]}, "has 2 entries"),
        ({"optimizer": "Adam"}, "but is 'Adam'"),
        ({"optimizer": {"learning_rate": 1}}, '"class_name".*learning_rate'),
        ({"stochastic_rounding": True}, "give the layer an optimizer"),
        *(
            (
                {"optimizer": "sgd", "stochastic_rounding": wrong},
                "stochastic_rounding must be a bool",
            )
            for wrong in ("yes", "False", 2, 0.5, 1)
        ),
    ],
    flat: [
        ({"tree": Tree.flat(8), "logit_soft_cap": 2.0}, "at least 9 classes"),
        ({"logit_soft_cap": -1.0}, "positive number or None"),
        ({"logit_soft_cap": True}, "positive number or None"),
        ({"logit_soft_cap": 2.0, **SMOOTHED}, "exclude each other"),
        ({"z_loss": 0.1, "focal_gamma": 1.0}, "leave out focal_gamma"),
        ({"z_loss": -0.1}, "z_loss is -0.1"),
    ],
    label_tree: [
        ({"tree": 40}, r"must be a tf_hsm\.Tree"),
        ({"tree": PINNED}, r"but a label tree has.*expand"),
        ({"optimizer": MOMENTUM}, "momentum is not possible"),
        ({"counts": PRIOR}, r"tf_hsm\.LabelCounts, but is ndarray"),
        ({"counts": COUNTS, "use_bias": False}, "use_bias is False"),
        ({"tree": FLAT, "counts": COUNTS}, "belong to another tree"),
    ],
    embedding_softmax: [
        ({"combiner": "max"}, "combiner must be 'mean' or"),
        (DEVICES, "devices is not possible"),
        ({"plan": "two"}, "plan is not possible"),
        ({"num_embeddings": 0}, "num_embeddings"),
        ({"width": 0}, "width"),
        ({"padding_id": 1.5}, "padding_id must be an integer"),
        ({"tree": 3}, "tree must be a tf_hsm.Tree"),
        ({"optimizer": keras.optimizers.SGD()}, "optimizer must"),
    ],
    tied: [
        ({"tree": Tree.two_level(NUM_CLASSES)}, "needs tree=Tree.flat"),
        ({"tree": Tree.flat(9)}, "30 rows, but the tree has 9 classes"),
        ({"optimizer": "sgd"}, "rows move before the gradient"),
        ({"devices": ["CPU:0"]}, "one variable"),
        ({"kernel_regularizer": "l2"}, "embeddings_regularizer"),
        ({"kernel_constraint": "non_neg"}, "embeddings_constraint"),
        ({"embedding": keras.layers.Dense(3)}, "layers.Embedding, but is De"),
    ],
    tails: [
        ({"num_classes": 0}, "num_classes is 0; it must be at least 1"),
        ({"cutoffs": "best"}, "cutoffs is 'best'; it must be 'auto'"),
        ({"cutoffs": -1}, "cutoffs is -1; it must be at least 0"),
        ({"cutoffs": [5, 5]}, r"cutoffs\[1\] is 5; it must be above 5"),
        ({"cutoffs": [0]}, r"cutoffs\[0\] is 0; it must be above 0"),
        ({"cutoffs": [5, 20]}, r"cutoffs\[1\] is 20; .* below the 20 classes"),
        ({"cutoffs": [2.5]}, "cutoffs must hold integers"),
        ({"counts": np.ones(19)}, "counts has 19 entries; .* 20"),
        ({"counts": -np.ones(20)}, "the count of class 0 is -1.0"),
        ({"div_value": 0.5}, "div_value is 0.5; it must be .* at least 1"),
        ({"div_value": np.inf}, "div_value is inf"),
        ({"div_value": "4"}, "div_value is '4'"),
        ({"use_bias": "tail"}, "use_bias is 'tail'; it must be one of"),
        ({"width": 0}, "width is 0; it must be at least 1"),
        ({"batch": 0}, "batch is 0; it must be at least 1"),
        *(
            ({"cutoffs": [9], "width": 8, "tail": tail}, words)
            for tail, words in (
                ("deep", "tail is 'deep'; it must be"),
                (1, "tail is 1; it must be at least 2"),
                ([], "tail lists 0 tails"),
                ([PINNED], r"tail 0 is pinned.*expand\(\)"),
                (Tree.two_level(10), "tail 0 is a tree of 10 classes; .* 11"),
            )
        ),
    ],
    built_tails: [
        ({"cutoffs": [3, 5], "div_value": 4}, "tail 2 has no width left"),
        ({"cutoffs": [3, 5, 7], "div_value": 1e200}, "tail 1 has no width"),
        ({"cutoffs": 19}, "cutoffs = 19: .* at most 18"),
        ({"cutoffs": 2, "tail": ["flat"] * 2}, "needs a list of cutoffs"),
        ({"tail": Tree.two_level(15)}, "needs a list of cutoffs"),
    ],
    sampled: [
        ({"num_classes": 0}, "num_classes is 0; it must be at least 1"),
        ({"num_classes": 2.5}, "num_classes must be an integer, not 2.5"),
        ({"num_sampled": 0}, "num_sampled is 0; it must be at least 1"),
        ({"sampler": "zipf"}, "sampler is 'zipf'; it must be one of"),
        ({"sampler": "counts"}, "there are none; give counts="),
        ({"power": -1}, "power is -1; it must be a number of at least 0"),
        ({"power": "1"}, "power is '1'; it must be a number"),
        ({"counts": [1, 2]}, "counts has 2 entries; .* has 9"),
        ({"counts": [1] * 8 + [-1]}, "the count of class 8 is -1"),
        ({"counts": [1] * 9, "use_bias": False}, "but use_bias is False"),
        ({"seed": 1.5}, "seed must be an integer"),
        ({"ignore_class": 1.5}, "ignore_class must be an integer"),
    ],
}
ROW_OPTIONS = {
    "kernel_regularizer": "l2",
    "bias_regularizer": "l1",
    "kernel_constraint": "max_norm",
    "bias_constraint": "non_neg",
}
CASES = [
    *((make, *case) for make, cases in ARGUMENTS.items() for case in cases),
    *(
        (make, {"optimizer": wrong}, "optimizer")
        for make in (make_head, make_adaptive)
        for wrong in (
            *("adamw", keras.optimizers.SGD(0.1), MOMENTUM, 3),
            optimizers.Adagrad(0.1, clipnorm=1.0),
        )
    ),
    *(
        (
            make,
            {"optimizer": "sgd", name: option},
            f"{name} is not possible in an update in",
        )
        for make in (make_head, make_adaptive, embedding_softmax, label_tree)
        for name, option in ROW_OPTIONS.items()
    ),
]


@pytest.mark.parametrize("make, options, words", CASES)
def test_arguments(make, options, words):
    with pytest.raises(ERRORS, match=words):
        make(**options)


TREE_HEAD = tf_hsm.TreeHead(tf.zeros([TREE.num_rows, WIDTH]), None, TREE)
SYMBOL = keras.Input([WIDTH])
SEVERAL = {"several_labels": True}
# Words of the error, and the call.
CALLS = {
    f"width 4, but .* width {WIDTH}": lambda: tied().build([None, 4]),
    "quantized or has LoRA weights": lambda: tied(with_lora()).build(
        [None, WIDTH]
    ),
    r"top_k\(\) takes 3 positional arg": lambda: head_of().top_k(X, 3, 0.1),
    r"TreeHead\.top_k\(\) takes 3 posit": lambda: TREE_HEAD.top_k(X, 3, 5),
    r"^tree must be a tf_hsm\.Tree, but is int": lambda: tf_hsm.TreeHead(
        TREE_HEAD.weights, None, 7
    ),
    "each input has several labels": lambda: label_tree()(X, ONES),
    r"nodes is not possible .* a plan": lambda: head_of(**DEVICES).log_prob(
        [[1]] * 11, X, nodes=True
    ),
    r"\(11,\), must have .* \(11, 6\)": lambda: head_of(**SEVERAL)(X, ONES),
    "labels must be integers": lambda: head_of(**SEVERAL)(X, SETS.astype("f4")),
    f"outside .0, {NUM_CLASSES}": lambda: head_of(**SEVERAL)(
        X, SETS + NUM_CLASSES
    ),
    "a number for each label, or one for": lambda: head_of(**SEVERAL)(
        X, SETS, np.ones([11, 3])
    ),
    r"of shape \(11, 4, 1\), has more": lambda: head_of(**SEVERAL).loss(
        SETS, X, np.ones([11, 4, 1])
    ),
    "has more dimensions than the losses": lambda: head_of().loss(
        ONES, X, np.ones([11, 4])
    ),
    "must have one number for each input": lambda: label_tree()(
        X, SETS, np.ones([11, 4])
    ),
    "has several labels: take .*Prec": lambda: metrics.TopKAccuracy(
        head_of(**SEVERAL), 2
    ).update_state(SETS, X),
    "as many for": lambda: head_of(**SEVERAL)(
        X[:2],
        tf.ragged.constant([[1, 2], [3]]),
        tf.ragged.constant([[0.5], [0.2, 0.8]]),
    ),
    "KerasTensors as inputs.* here they are inputs and k$": lambda: (
        make_head().top_k(SYMBOL, keras.Input([]))
    ),
    "here they are classes$": lambda: make_head().log_prob(
        keras.Input([3], dtype="int64"), X
    ),
    r'keras.Input\(.*dtype="int64"': lambda: make_head()(
        keras.Input([5, WIDTH]), keras.Input([5])
    ),
    **{
        f"must be floats, but are {dtype}": lambda dtype=dtype: make_head()(
            keras.Input([WIDTH], dtype=dtype)
        )
        for dtype in ("int32", "bool")
    },
    "other embeds classes only if": lambda: tails(name="other")(
        keras.Input([5]), embed=True
    ),
    "classes must be integers": lambda: make_head().log_prob(
        keras.Input([3]), SYMBOL
    ),
    r"last dimension of inputs.*None\)": lambda: make_head()(
        keras.Input([5, None])
    ),
    "last dimension of inputs": lambda: make_head().log_probs(
        keras.Input([None])
    ),
    **{
        f"pinned, but a baseline{end}.*expand": lambda loss=loss: loss(
            np.ones([10, 2]), None, [0], np.ones([1, 2]), PINNED
        )
        for end, loss in (
            ("", tf_hsm.baselines.gather_loss),
            (" ", tf_hsm.baselines.map_fn_loss),
        )
    },
    **{
        rf"k = {k} is outside .1, 30{end}": lambda k=k, x=x: head_of().top_k(
            x, k
        )
        for k in (0, -1, 31, np.int64(99))
        for end, x in (("", X), (".", SYMBOL))
    },
}


@pytest.mark.parametrize("words", CALLS)
def test_calls(words):
    with pytest.raises(ERRORS, match=words):
        CALLS[words]()


@pytest.mark.parametrize("make", [make_head, make_adaptive])
def test_an_optimizer_for_two_heads(make):
    """It is one head's alone; the other would find no slots in it."""
    optimizer = optimizers.Adagrad(0.1, 0.1)
    one, other = make(optimizer=optimizer), make(optimizer=optimizer)
    one(X, ONES)
    with pytest.raises(ValueError, match="belongs to another layer"):
        other(X, ONES)


@pytest.mark.parametrize(
    "make", [make_head, make_adaptive, models.sampled_head]
)
@pytest.mark.parametrize("in_function", [False, True])
def test_what_has_no_gradient_says_so(make, in_function):
    head, x = head_of(make), tf.constant(X)

    def gradient(answer):
        with tf.GradientTape() as tape:
            tape.watch(x)
            total = tf.reduce_sum(answer(x))
        return tape.gradient(total, x)

    if in_function:
        gradient = tf.function(gradient, autograph=False)
    for answer, message in {
        lambda x: head.top_k(x, 20).log_probs: "top_k has no gradient: train",
        lambda x: head.log_prob(SETS, x): "log_prob has no gradient: train",
    }.items():
        with pytest.raises(LookupError, match=message):
            gradient(answer)
