"""What the functions refuse: tables of calls and of what the error says.

Nothing has changed after any of them. Calls of the raw ops are in
`hostile_test`.
"""

import inspect

import keras
import numpy as np
import pytest
import tensorflow as tf

import tf_hsm
from tests.support import private, references
from tests.support.references import build
from tests.support.training import assert_same
from tests.support.update_rules import OPTIMIZERS, built
from tf_hsm import baselines, optimizers

INVALID = tf.errors.InvalidArgumentError
TREE = tf_hsm.Tree.huffman(1 + np.arange(60) ** 2, branching=3)
FLAT = tf_hsm.Tree.flat(60)
FOREST = build("below binary")
PINNED = tf_hsm.Tree.huffman(1 / np.arange(1, 61)).pin()
# Three groups of three rows.
SMALL = tf_hsm.Tree.from_nested([[0, 1, 2], [3, 4, 5], 6])
BATCH, WIDTH, COUNT = 4, 3, 29
ROWS = TREE.num_rows
FUNCTIONS = {
    name.removeprefix("hierarchical_softmax_"): getattr(module, name)
    for module in (tf_hsm, baselines)
    for name in dir(module)
    if name.startswith(("hierarchical_softmax_", "label_tree_"))
    or name in ("gather_loss", "embedding_lookup_loss", "map_fn_loss")
}
STEPS = "train_step embedding_train_step label_tree_train_step"
SMOOTHED = "loss train_step embedding_train_step"
LOSSES = f"loss label_tree_loss {STEPS}"
DOWN = "log_probs log_prob top_k sample"
SEARCHES = "top_k label_tree_top_k"
LABEL_TREES = " ".join(f for f in FUNCTIONS if f.startswith("label_tree"))
TAKE_ALLOWED = f"{SEARCHES} sample log_prob"


def given_to(name, tree=TREE):
    """Right arguments of a function, and the variables that are trained."""
    problem = references.random_problem(tree, BATCH, WIDTH, np.float32)
    labels = np.arange(BATCH)
    weights, biases = tf.Variable(problem.weights), tf.Variable(problem.biases)
    vectors = tf.Variable(np.ones([COUNT, WIDTH], np.float32))
    held = [weights, biases, vectors]
    known = inspect.signature(FUNCTIONS[name]).parameters
    given = {
        "weights": weights,
        "biases": biases,
        "labels": labels[:, None] if "label_tree" in name else labels,
        "inputs": problem.inputs,
        "tree": tree,
        "classes": np.zeros([BATCH, 2], np.int64),
        "k": 2,
        "num_samples": 3,
        "optimizer": built("adagrad", held),
        "vectors": vectors,
        "indices": labels,
    }
    return {k: v for k, v in given.items() if k in known}, held


def bags(values, splits):
    return tf.RaggedTensor.from_row_splits(
        tf.constant(values, tf.int64),
        tf.constant(splits, tf.int64),
        validate=False,
    )


def at(index, value):
    """Changes one of the labels, or classes."""

    def change(right):
        labels = np.array(right)
        labels.flat[index] = value
        return labels

    return change


def new(shape, dtype=np.float32):
    """Makes a variable of zeros."""
    return lambda right: tf.Variable(np.zeros(shape, dtype))


def part(right):
    return tf.Variable(right[:-1]) if hasattr(right, "assign") else right[:-1]


def in_two_parts(right):
    """What a `variable_partitioner` makes of weights."""
    parts = right[:40], right[40:]
    return private.sharded_variable([tf.Variable(part) for part in parts])


def by(optimizer, **options):
    """Makes an optimizer in place of the right one."""
    return {"optimizer": lambda right: optimizer(0.1, **options)}


def prior(change):
    """Label smoothing to a prior that is changed."""
    right = SMALL.row_shares(np.arange(1, 8))
    options = {"label_smoothing": 0.5, "smoothing_prior": change(right)}
    return {"tree": SMALL, **options}


def no_integers(*names):
    """Rows with other things in the place of integers."""
    return [
        ({name: wrong}, f"^{name} must be of the type int64")
        for name in names
        for wrong in (2.0, np.float64(2.7), tf.constant(2.7), "2", True, 2**70)
    ]


class Mine(optimizers.SGD):
    """A subclass, which may do something else than its base."""


# What needs the whole gradient, of every optimizer.
WHOLE = {
    "clipnorm": 1.0,
    "global_clipnorm": 1.0,
    "clipvalue": 0.5,
    "use_ema": True,
    "gradient_accumulation_steps": 2,
    "loss_scale_factor": 4.0,
}
ONES = {"indices": bags([1, 2, 3], [0, 1, 1, 1, 3])}
# For functions, in a text with spaces: other arguments, and words of the error.
# An argument that is a function gets the right argument; a tree is the tree
# that the other arguments are for.
WRONG_TYPES = {
    LOSSES: [({"labels": lambda y: y.astype("f4")}, "labels must be integers")],
    "loss train_step": [
        ({"ignore_class": wrong}, "integer")
        for wrong in (1.0, [1, 2.5], "3", [[1]])
    ],
    SMOOTHED: [
        ({"label_smoothing": wrong}, r"label_smoothing must be .*\[0, 1\]")
        for wrong in ("much", None)
    ],
    "loss label_tree_loss train_step": [
        ({"weights": tf_hsm.quantize_rows}, "the weights as floats")
    ],
    "loss label_tree_loss log_probs top_k": [
        ({"weights": in_two_parts}, "a ShardedVariable of 2 parts")
    ],
    STEPS: [
        ({argument: convert}, f"{argument} must be a variable")
        for convert in (lambda v: v.read_value(), lambda v: v.numpy())
        for argument in ("weights", "biases")
    ],
    "train_step": [
        (by(keras.optimizers.SGD), "optimizer must be"),
        (by(keras.optimizers.Adam), "optimizer must be"),
        (
            by(lambda r: optimizers.LossScaleOptimizer(optimizers.SGD(r))),
            "LossScaleOptimizer",
        ),
        (by(Mine), "Mine"),
    ],
    "embedding_train_step": [
        ({"vectors": lambda v: v.read_value()}, "vectors must be a variable"),
        ({"vectors": lambda v: v.numpy()}, "vectors must be a variable"),
        ({"indices": [0.5] * 4}, "indices must be integers"),
        (
            {"indices": tf.ragged.constant([[1.5], [2.0], [1.0], []])},
            "indices must be integers",
        ),
    ],
    "log_prob": [
        ({"classes": lambda c: c.astype("f4")}, "classes must be integers")
    ],
    SEARCHES: no_integers("k", "beam_width"),
    "sample": [
        *no_integers("num_samples", "seed", "top_k"),
        ({"temperature": "1"}, "^temperature must be of the type float64"),
        ({"top_p": "1"}, "^top_p must be of the type float64"),
        ({"num_samples": 2.5, "allowed": [4]}, "num_samples"),
    ],
    TAKE_ALLOWED: [
        ({"allowed": np.float32([1.5])}, "allowed must be integers, but are fl")
    ],
}
NO_NUMBERS = (np.nan, np.inf)
WRONG_VALUES = {
    SEARCHES: [
        ({"beam_width": width}, f"beam_width = {width} is below 1")
        for width in (0, -2)
    ],
    "sample": [
        ({"top_k": 0}, "top_k = 0 is below 1"),
        ({"top_k": -2}, "top_k = -2 is below 1"),
        ({"top_p": 2, "allowed": [1]}, "top_p = 2 is not in"),
        ({"tree": FOREST, "allowed": [1]}, "root_log_probs must be there"),
    ],
    "top_k": [
        (
            {"threshold": 0.5, "bounds": np.zeros(BATCH)},
            "threshold and bounds are both",
        ),
        ({"renormalize": True}, "renormalize needs allowed"),
        (
            {"tree": FOREST, "allowed": [1], "renormalize": True},
            "renormalize needs root_log_probs",
        ),
    ],
    TAKE_ALLOWED: [
        ({"allowed": 7}, "allowed must be a list of classes"),
        ({"allowed": np.ones([4, 60], bool)}, "allowed must have the shape"),
    ],
    "log_prob label_tree_log_prob": [
        ({"nodes": True, "allowed": [1]}, "one of nodes and allowed")
    ],
    "loss train_step": [
        ({"tree": FLAT, option: wrong}, option)
        for option, some in (
            ("logit_soft_cap", (0.0, -1.0, "30", *NO_NUMBERS)),
            ("z_loss", (-1.0, None, *NO_NUMBERS)),
        )
        for wrong in some
    ],
    SMOOTHED: [
        ({"label_smoothing": wrong}, r"label_smoothing must be .*\[0, 1\]")
        for wrong in (-0.1, 1.5, np.nan)
    ],
    "label_tree_loss": [
        ({"labels": [3]}, r"labels, of shape \(1,\), must have the shape"),
        ({"labels": 3}, r"labels, of shape \(\), must have the shape"),
    ],
    LABEL_TREES: [({"tree": PINNED}, r"pinned.*tree\.expand\(\)")],
    "train_step embedding_train_step": [
        ({"stochastic_rounding": True}, "stochastic_rounding is for bfloat16")
    ],
    "train_step": [
        *(
            (by(make, **{option: value}), option)
            for make in (
                *(optimizers.SGD, optimizers.Adagrad, optimizers.Lion),
                *(optimizers.RowwiseAdagrad, optimizers.LazyAdam),
                optimizers.RMSprop,
            )
            for option, value in WHOLE.items()
        ),
        (by(optimizers.SGD, momentum=0.9), "momentum"),
        (by(optimizers.LazyAdam, amsgrad=True), "amsgrad"),
        ({"optimizer": "adamw"}, "sgd, adagrad"),
    ],
    "embedding_train_step": [
        ({"index_weights": [1.0] * 4}, "index_weights are for bags"),
        ({**ONES, "combiner": "max"}, "combiner must be 'mean' or 'sum'"),
        (
            {"indices": tf.ragged.constant([[[1]], [[2]], [[3]], [[4]]])},
            r"must be \[B, None\]",
        ),
    ],
}
INVALID_ARGUMENTS = {
    LOSSES: [({"labels": at(3, 60)}, r"labels\[3\] = 60 is outside \[0, 60\)")],
    SMOOTHED: [
        ({"labels": at(1, -1)}, r"labels\[1\] = -1 is"),
        *(
            (
                {"labels": at(1, row), "nodes": True},
                rf"labels\[1\] = {row} is outside \[0, {ROWS}\)",
            )
            for row in (-1, ROWS, 2**40)
        ),
        (prior(at(0, np.nan)), r"smoothing_prior\[0\] = nan is outside"),
        (prior(at(2, 1.5)), r"smoothing_prior\[2\] = 1.50* is outside"),
        (
            prior(lambda p: at(2, 0.25 + p[2])(p)),
            "smoothing_prior.*sums to 1.250* in group 0, the rows 0 to 2",
        ),
        (
            {"tree": SMALL, "smoothing_prior": SMALL.row_shares()},
            "smoothing_prior is for a label_smoothing above 0",
        ),
    ],
    "log_prob": [
        (
            {"classes": at(5, number), "nodes": nodes},
            rf"classes\[5\] = {number} is outside \[0, {size}\)",
        )
        for nodes, size in ((False, 60), (True, ROWS))
        for number in (-1, size, 2**31 - 1)
    ],
    "label_tree_log_prob": [
        ({"classes": at(5, ROWS), "nodes": True}, rf"{ROWS} is outside \[0, ")
    ],
    "top_k": [
        *(
            ({"k": make(k)}, rf"k = {k} is outside \[1, 60\]")
            for k in (-1, 0, 61, 2**40)
            for make in (int, lambda k: tf.constant(k, tf.int64))
        ),
        ({"k": [2]}, "k must be a sc"),
        ({"beam_width": tf.constant(-3)}, "beam_width"),
        ({"threshold": [0.5, 0.5]}, "threshold"),
        ({"weights": new([2 * ROWS, WIDTH]), "biases": None}, "row_below"),
    ],
    SEARCHES: [
        ({"threshold": np.nan}, "must not be NaN"),
        ({"threshold": [np.nan] * BATCH}, "must not be NaN"),
    ],
    "sample": [
        *(
            ({"top_k": wrong, "allowed": allowed}, r"outside \[1, 60\]")
            for wrong in (tf.constant(-2), tf.constant(61), 61)
            for allowed in (None, [4, 30])
        ),
        ({"temperature": -1.0}, "temperature = -1 is not a finite number"),
        ({"temperature": np.nan}, "temperature = -?nan "),
        ({"temperature": np.inf}, "temperature = inf "),
        ({"temperature": [1.0]}, "temperature must be a scalar"),
        ({"top_p": 0.0}, r"top_p = 0 is outside \(0, 1\]"),
        ({"top_p": -0.1}, "top_p"),
        ({"top_p": 1.5}, "top_p = 1.5 "),
        ({"top_p": np.nan}, "top_p = -?nan "),
        ({"num_samples": -1}, "num_samples = -1 is negative"),
        ({"num_samples": [2]}, "num_samples must be a scalar"),
        *(
            ({"seed": seed}, r"seed must have the shape \[2\]")
            for seed in ([1], [1, 2, 3], [[1, 2]])
        ),
        *(
            ({"tree": FOREST, **options}, "root_log_probs .*forest of 6 trees")
            for options in ({}, {"top_k": 3}, {"top_p": 0.5})
        ),
    ],
    "loss": [
        *(
            ({"tree": tree, option: 2.0}, f"{option} is for a flat tree of at")
            for tree in (tf_hsm.Tree.two_level(100), tf_hsm.Tree.flat(8))
            for option in ("logit_soft_cap", "z_loss")
        ),
        (
            {"tree": FLAT, "logit_soft_cap": 3.0, "label_smoothing": 0.1},
            "exclude each",
        ),
        ({"tree": FOREST, "weights": part, "biases": None}, "row_groups"),
        ({"tree": PINNED, "biases": new([PINNED.num_rows])}, "biases must"),
    ],
    "label_tree_loss": [
        ({"inputs": lambda x: x[:, :-1]}, "width|shape|must be equal"),
        ({"weights": lambda w: w[:5]}, "must be equal|weights"),
        ({"tree": FOREST}, "has one root"),
    ],
    "train_step": [
        ({"biases": new([ROWS], np.float64)}, "biases"),
        (
            {"loss_weights": np.ones(5)},
            r"loss_weights must .* has the shape \[5\]",
        ),
    ],
    TAKE_ALLOWED: [
        ({"allowed": [60]}, r"outside.*\[0, 60\)"),
        ({"allowed": [3, -2]}, r"outside.*\[0, 60\)"),
        ({"allowed": np.ones([3, 3], int)}, "allowed must have the shape"),
        ({"allowed": np.ones([59], bool)}, "allowed must have a boolean for"),
    ],
    # Weights that are made for another tree, with another number of rows or the
    # same.
    f"loss train_step {DOWN}": [
        (
            {"tree": tree, "weights": new([rows, WIDTH]), "biases": None},
            "weights must be made for this tree",
        )
        for tree, rows in (
            (PINNED, 2 * PINNED.num_weight_rows),
            (PINNED.expand(), PINNED.num_weight_rows),
        )
    ],
    "embedding_train_step": [
        (
            {"vectors": new([COUNT, WIDTH], np.float64)},
            "vectors must be float, but is double",
        ),
        *(
            ({"indices": indices, **options}, words)
            for indices, words, options in (
                ([0, 0, 0, COUNT], rf"indices\[3\] = {COUNT}", {}),
                ([-1, 0, 0, 0], r"indices\[0\] = -1", {}),
                ([COUNT] * 4, r"indices\[0\]", {"ignore_class": 0}),
                ([1, 2, 3], "indices must have the shape of labels", {}),
            )
        ),
        *(
            ({"indices": bags(values, splits)}, words)
            for values, splits, words in (
                ([1, COUNT, 2], [0, 1, 2, 3, 3], rf"indices\[1\] = {COUNT}"),
                ([1, 2, 3], [0, 4, 3, 3, 3], "splits must ascend from 0 to 3"),
                ([1, 2, 3], [1, 2, 3, 3, 3], r"splits\[0\] = 1"),
                ([1, 2, 3], [0, 1, 1, 1, 2], r"splits\[4\] = 2"),
                ([1, 2, 3], [0, 1, 2, 3], "splits must have the shape"),
            )
        ),
        (
            {**ONES, "index_weights": bags([1, 2, 3], [0, 2, 2, 2, 3])},
            "row splits of indices",
        ),
        ({**ONES, "index_weights": [1.0, 2.0]}, "index_weights must have the"),
    ],
}
# Graphs know the shapes too: these are not even traced.
WRONG_SHAPES = {
    SMOOTHED: [
        (prior(lambda p: p[:-1]), r"smoothing_prior.*\[9\], but has \[8\]"),
        (prior(lambda p: np.append(p, 1)), r"prior.*\[9\], but has \[10\]"),
        (prior(lambda p: p[:, None]), r"prior.*\[9\], but has \[9,1\]"),
        (prior(lambda p: 0.5), r"smoothing_prior.*\[9\], but has \[\]"),
    ],
    "loss train_step": [
        ({"weights": part, "biases": part}, "row_groups .*for this tree"),
        ({"labels": part}, "inputs"),
    ],
    DOWN: [
        ({"weights": part, "biases": part}, "row_below .*this tree"),
        *(
            (
                {"tree": FOREST, "root_log_probs": np.zeros(shape, np.float32)},
                "root_log_probs must have the shape",
            )
            for shape in ([4, FOREST.num_roots - 1], [3, FOREST.num_roots])
        ),
    ],
    f"loss train_step {DOWN}": [
        ({"biases": part}, "biases"),
        ({"inputs": lambda x: x[:, :-1]}, "inputs"),
    ],
    f"loss {DOWN}": [
        ({"inputs": lambda x: x[0, 0]}, "inputs|labels|classes"),
        ({"weights": lambda w: w[0]}, "weights"),
    ],
    "log_prob": [({"classes": part}, "classes"), ({"classes": 0}, "classes")],
    "top_k": [({"bounds": np.zeros([3], "f4")}, "bounds must have the shape")],
    "embedding_train_step": [
        ({"vectors": new([COUNT, WIDTH - 1])}, "vectors must have the width"),
        ({"vectors": new([WIDTH])}, "vectors must have the shape"),
    ],
}
CASES = [
    (name, error, options, words, rows_of is WRONG_SHAPES)
    for error, rows_of in (
        (TypeError, WRONG_TYPES),
        (ValueError, WRONG_VALUES),
        (INVALID, INVALID_ARGUMENTS),
        (INVALID, WRONG_SHAPES),
    )
    for names, rows in rows_of.items()
    for name in names.split()
    for options, words in rows
]


@pytest.mark.parametrize("name, error, options, words, in_graphs", CASES)
def test_refused(name, error, options, words, in_graphs):
    """Eagerly an error says what is wrong; where shapes do, in a graph too."""
    given, _ = given_to(name, options.get("tree", TREE))
    for argument, value in options.items():
        is_function = callable(value) and not tf.is_tensor(value)
        given[argument] = value(given[argument]) if is_function else value
    trained = [given.get(k) for k in ("weights", "biases", "vectors")]
    held = [v for v in trained if isinstance(v, tf.Variable)]
    if "optimizer" in given and "optimizer" not in options:
        given["optimizer"] = OPTIMIZERS["adagrad"]()
    optimizer = given.get("optimizer")
    if isinstance(optimizer, keras.optimizers.Optimizer):
        optimizer.build(held)
        held += optimizer.variables
    before = [v.numpy() for v in held]
    with pytest.raises(error, match=words):
        FUNCTIONS[name](**given)
    assert_same([v.numpy() for v in held], before)
    if in_graphs:
        call = tf.function(lambda: FUNCTIONS[name](**given), autograph=False)
        with pytest.raises(ValueError):
            call.get_concrete_function()


@pytest.mark.parametrize("name", STEPS.split())
def test_a_function_that_fails_changes_nothing(name):
    """Weights and slots stay as they are, and no step is counted."""
    given, held = given_to(name)
    labels = given.pop("labels")
    step = tf.function(lambda y: FUNCTIONS[name](**given, labels=y))
    held += given["optimizer"].variables
    before = [v.numpy() for v in held]
    for _ in range(10):
        with pytest.raises(INVALID, match="labels"):
            step(tf.fill(labels.shape, tf.constant(60, tf.int64)))
    assert_same([v.numpy() for v in held], before)


@pytest.mark.parametrize("rule", OPTIMIZERS)
def test_an_optimizer_of_other_variables(rule):
    """An optimizer that is not built for the variables has no slots."""
    given, (weights, biases, _) = given_to("train_step")
    makes = OPTIMIZERS[rule](), built(rule, [biases]), built(rule, [weights])
    for given["optimizer"] in makes:
        with pytest.raises(ValueError, match="optimizer must be built"):
            FUNCTIONS["train_step"](**given)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_no_tree(name):
    """A number of classes in the place of the tree, as other losses take it."""
    given, _ = given_to(name)
    function = FUNCTIONS[name]
    known = inspect.signature(function).parameters
    options = [{}, {"allowed": [1, 2]}, {"allowed": [1], "renormalize": True}]
    for option in (o for o in options if o.keys() <= known.keys()):
        for wrong, words in (
            (100, "int; tf_hsm.Tree.two_level"),
            ("tree", "str"),
            (None, "N"),
        ):
            match = f"tree must be a tf_hsm.Tree, but is {words}"
            with pytest.raises(TypeError, match=match):
                function(**{**given, "tree": wrong}, **option)
    function(**given)


@pytest.mark.parametrize(
    "make",
    [
        lambda n: tf_hsm.TreeHead(np.zeros([110, 8]), np.zeros(110), n),
        lambda n: tf_hsm.LabelCounts.of(n, [[1]]),
        lambda n: tf_hsm.LabelCounts.expected(n, [1], examples=2),
        lambda n: tf_hsm.distribute.plan(n, 2),
    ],
)
def test_no_tree_elsewhere(make):
    """`tests/layers/refusals_test.py` has layers."""
    for wrong in (100, np.int64(100)):
        with pytest.raises(TypeError, match=r"but is int.*two_level\(100\)"):
            make(wrong)


@pytest.mark.parametrize(
    "name, by",
    [
        *((name, by) for name in ("loss", "log_probs") for by in ("w", "x")),
        ("train_step", "x"),
    ],
)
def test_second_order(name, by):
    """There is no gradient of the gradient, and nobody is told zero."""
    given, _ = given_to(name)
    given["inputs"] = tf.Variable(given["inputs"])
    if name == "train_step":
        given["loss_weights"] = 1.0
    sources = {"w": given["weights"], "x": given["inputs"]}
    for target in sources.values():
        with tf.GradientTape() as outer:
            with tf.GradientTape() as inner:
                total = tf.reduce_sum(FUNCTIONS[name](**given))
            first = inner.gradient(total, sources[by])
            first = tf.convert_to_tensor(first)
        with pytest.raises(LookupError):
            outer.gradient(first, target)


@pytest.mark.parametrize("kind", [tf.identity, tf.Variable])
@pytest.mark.parametrize("name", ["log_prob", "top_k", "label_tree_log_prob"])
def test_what_has_no_gradient_says_so(name, kind):
    given, _ = given_to(name)
    given["weights"] = kind(given["weights"])
    given["inputs"] = x = tf.Variable(given["inputs"])
    with tf.GradientTape() as tape:
        found = FUNCTIONS[name](**given)
        found = getattr(found, "log_probs", found)
    with pytest.raises(LookupError, match="has no gradient: train"):
        tape.gradient(found, x)


@pytest.mark.parametrize("place", ["weights", "vectors"])
def test_variables_on_another_device(monkeypatch, place):
    """The error says what to use there."""
    given, held = given_to("embedding_train_step")
    elsewhere, here = given[place], held[0].device
    device = "/job:localhost/replica:0/task:0/device:GPU:0"
    monkeypatch.setattr(
        type(held[0]),
        "device",
        property(lambda v: device if v is elsewhere else here),
    )
    with pytest.raises(ValueError, match=rf"{place} must be on a CPU.*gather"):
        FUNCTIONS["embedding_train_step"](**given)


@pytest.mark.parametrize("name", ["log_prob", "label_tree_log_prob"])
def test_what_gpus_do_not_have(monkeypatch, name):
    """Before the op is called, which would read the arrays as another tree."""
    given, held = given_to(name)
    device = "/job:localhost/replica:0/task:0/device:GPU:0"
    monkeypatch.setattr(type(held[0]), "device", device)
    with pytest.raises(tf.errors.UnimplementedError, match="nodes is not"):
        FUNCTIONS[name](**given, nodes=True)
