"""What the functions refuse: a table of calls and of what the error says.

Nothing has changed after any of them. Calls of the raw ops are in
`hostile_test`.
"""

import inspect

import numpy as np
import pytest
import tensorflow as tf

import tf_hsm
from tests.support import references
from tests.support.references import build
from tests.support.training import assert_same, states
from tests.support.update_rules import built
from tf_hsm import baselines, layers

INVALID = tf.errors.InvalidArgumentError
TREE = tf_hsm.Tree.huffman(1 + np.arange(60) ** 2, branching=3)
FLAT = tf_hsm.Tree.flat(60)
FOREST = build("below binary")
PINNED = tf_hsm.Tree.huffman(1 / np.arange(1, 61)).pin()
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
LOSSES = f"loss label_tree_loss {STEPS}"
DOWN = "log_probs log_prob top_k sample"


def given_to(name, tree=TREE):
    """Right arguments of a function, and what a call of it might change."""
    problem = references.random_problem(tree, BATCH, WIDTH, np.float32)
    labels = np.arange(BATCH)
    weights, biases = tf.Variable(problem.weights), tf.Variable(problem.biases)
    vectors = tf.Variable(np.ones([COUNT, WIDTH], np.float32))
    held = [weights, biases, vectors]
    optimizer = built("adagrad", held)
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
        "optimizer": optimizer,
        "vectors": vectors,
        "indices": labels,
    }
    return {k: v for k, v in given.items() if k in known}, optimizer, held


def bags(values, splits):
    return tf.RaggedTensor.from_row_splits(
        tf.constant(values, tf.int64),
        tf.constant(splits, tf.int64),
        validate=False,
    )


def refused(names, error, *rows, tree=TREE, traced=False):
    """Calls of functions with other arguments.

    Args:
        names: The functions, in a text with spaces.
        error: What they raise, or several.
        *rows: Each a pattern of the error's words, and the arguments. One that
            is a function gets the right argument.
        tree: The tree that the other arguments are for.
        traced: Whether a graph does not let it be traced.

    Returns:
        Arguments of `test_refused`, a list.
    """
    return [
        (name, error, message, tree, traced, changes)
        for name in names.split()
        for message, changes in rows
    ]


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


def prior(change):
    """Label smoothing to a prior that is changed."""
    right = SMALL.row_shares(np.arange(1, 8))
    return {"label_smoothing": 0.5, "smoothing_prior": change(right)}


# A prior has a number for each of its nine rows, of three groups of three.
SMALL = tf_hsm.Tree.from_nested([[0, 1, 2], [3, 4, 5], 6])
PRIORS = [
    (r"shape \[9\], but has \[8\]", lambda p: p[:-1]),
    (r"shape \[9\], but has \[10\]", lambda p: np.append(p, 1)),
    (r"shape \[9\], but has \[9,1\]", lambda p: p[:, None]),
    (r"shape \[9\], but has \[\]", lambda p: 0.5),
    (r"prior\[0\] = nan is outside", at(0, np.nan)),
    (r"prior\[1\] = -0.10* is outside", at(1, -0.1)),
    (r"prior\[2\] = inf is outside", at(2, np.inf)),
    (r"prior\[2\] = 1.50* is outside", at(2, 1.5)),
    (
        r"sums to 1.250* in group 0, the rows 0 to 2",
        lambda p: at(2, 0.25 + p[2])(p),
    ),
    ("sums to 0.33.* in group 0", lambda p: np.arange(9) / 9),
    ("sums to 0.0* in group 0, the rows 0 to 2", lambda p: 0 * p),
]
ALONE = {"indices": bags([1, 2, 3], [0, 1, 1, 1, 3])}
REFUSED = [
    # Labels, classes and rows.
    *refused(
        LOSSES,
        INVALID,
        (r"labels\[3\] = 60 is outside \[0, 60\)", {"labels": at(3, 60)}),
    ),
    *refused(
        "loss train_step embedding_train_step",
        INVALID,
        (r"labels\[1\] = -1 is", {"labels": at(1, -1)}),
        *[
            (
                rf"labels\[1\] = {row} is outside \[0, {ROWS}\)",
                {"labels": at(1, row), "nodes": True},
            )
            for row in (-1, ROWS, 2**40)
        ],
    ),
    *refused(
        "log_prob",
        INVALID,
        *[
            (
                rf"classes\[5\] = {row} is outside \[0, {ROWS}\)",
                {"classes": at(5, row), "nodes": True},
            )
            for row in (-1, ROWS, 2**40)
        ],
        *[
            (
                rf"classes\[5\] = {row} is outside \[0, 60\)",
                {"classes": at(5, row)},
            )
            for row in (-1, 60, 2**31 - 1)
        ],
    ),
    *refused(
        "label_tree_log_prob",
        INVALID,
        (
            rf"{ROWS} is outside \[0, {ROWS}",
            {"classes": [[ROWS]] * BATCH, "nodes": True},
        ),
    ),
    # Types of numbers.
    *refused(
        LOSSES,
        TypeError,
        ("labels must be integers", {"labels": lambda y: y.astype("f4")}),
    ),
    *refused(
        "log_prob",
        TypeError,
        ("classes must be integers", {"classes": lambda c: c.astype("f4")}),
    ),
    *refused(
        "loss train_step",
        TypeError,
        *[
            ("integer", {"ignore_class": wrong})
            for wrong in (1.0, [1, 2.5], "3", [[1]])
        ],
    ),
    *[
        each
        for value in (2.0, np.float64(2.7), tf.constant(2.7), "2", True, 2**70)
        for names, argument in (
            ("top_k label_tree_top_k", "k"),
            ("top_k label_tree_top_k", "beam_width"),
            ("sample", "num_samples"),
            ("sample", "seed"),
            ("sample", "top_k"),
        )
        for each in refused(
            names,
            TypeError,
            (f"^{argument} must be of the type int64", {argument: value}),
        )
    ],
    *refused(
        "sample",
        TypeError,
        ("^temperature must be of the type float64", {"temperature": "1"}),
        ("^top_p must be of the type float64", {"top_p": "1"}),
        ("num_samples", {"num_samples": 2.5, "allowed": [4]}),
    ),
    # Options of draws and of searches.
    *refused(
        "top_k",
        INVALID,
        *[
            (rf"k = {k} is outside \[1, 60\]", {"k": make(k)})
            for k in (-1, 0, 61, 2**40)
            for make in (int, lambda k: tf.constant(k, tf.int64))
        ],
        ("k must be a sc", {"k": [2]}),
        ("beam_width", {"beam_width": tf.constant(-3)}),
    ),
    *refused(
        "top_k label_tree_top_k",
        ValueError,
        ("beam_width = 0 is below 1", {"beam_width": 0}),
        ("beam_width = -2 is below 1", {"beam_width": -2}),
    ),
    *refused(
        "sample",
        (INVALID, ValueError),
        ("top_k = 0 is below 1", {"top_k": 0}),
        ("top_k = -2 is below 1", {"top_k": -2}),
        *[
            (
                r"outside \[1, 60\]",
                {"top_k": tf.constant(count), "allowed": allowed},
            )
            for count in (-2, 61)
            for allowed in (None, [4, 30])
        ],
        (
            "temperature = -0.1 is not a finite number of at least 0",
            {"temperature": -0.1},
        ),
        ("temperature = -1 ", {"temperature": -1.0}),
        ("temperature = -?nan ", {"temperature": np.nan}),
        ("temperature = inf ", {"temperature": np.inf}),
        ("temperature must be a scalar", {"temperature": [1.0]}),
        (r"top_p = 0 is outside \(0, 1\]", {"top_p": 0.0}),
        ("top_p", {"top_p": -0.1}),
        ("top_p = 1.5 ", {"top_p": 1.5}),
        ("top_p = -?nan ", {"top_p": np.nan}),
        ("top_p = 2 is not in", {"top_p": 2, "allowed": [1]}),
        (r"top_k = 61 is outside \[\d, 60\]", {"top_k": 61}),
        ("top_k = -1 is outside", {"top_k": tf.constant(-1)}),
        ("num_samples = -1 is negative", {"num_samples": -1}),
        ("num_samples must be a scalar", {"num_samples": [2]}),
        (r"seed must have the shape \[2\]", {"seed": [1]}),
        (r"seed must have the shape \[2\]", {"seed": [1, 2, 3]}),
        (r"seed must have the shape \[2\]", {"seed": [[1, 2]]}),
    ),
    # Thresholds, bounds and soft caps.
    *refused(
        "top_k label_tree_top_k",
        (ValueError, INVALID),
        ("must not be NaN", {"threshold": np.nan}),
        ("must not be NaN", {"threshold": [np.nan] * BATCH}),
    ),
    *refused(
        "top_k",
        (ValueError, INVALID),
        ("threshold", {"threshold": [0.5, 0.5]}),
        (
            "threshold and bounds are both",
            {"threshold": 0.5, "bounds": np.zeros(BATCH)},
        ),
    ),
    *refused(
        "top_k",
        INVALID,
        ("bounds must have the shape", {"bounds": np.zeros([3], np.float32)}),
        traced=True,
    ),
    *refused(
        "loss train_step",
        ValueError,
        *[
            ("logit_soft_cap", {"logit_soft_cap": cap})
            for cap in (0.0, -1.0, np.nan, np.inf, "30")
        ],
        *[("z_loss", {"z_loss": z}) for z in (-1.0, np.nan, np.inf, None)],
        tree=FLAT,
    ),
    *[
        each
        for tree in (tf_hsm.Tree.two_level(100), tf_hsm.Tree.flat(8))
        for each in refused(
            "loss",
            INVALID,
            ("logit_soft_cap is for a flat tree of", {"logit_soft_cap": 3.0}),
            ("z_loss is for a flat tree of at least 9 cl", {"z_loss": 0.1}),
            tree=tree,
        )
    ],
    *refused(
        "loss",
        INVALID,
        ("exclude each", {"logit_soft_cap": 3.0, "label_smoothing": 0.1}),
        tree=FLAT,
    ),
    # Label smoothing.
    *refused(
        "loss train_step embedding_train_step",
        (ValueError, TypeError),
        *[
            (
                r"label_smoothing must be .*\[0, 1\]",
                {"label_smoothing": share},
            )
            for share in (-0.1, 1.5, float("nan"), "much", None)
        ],
    ),
    *refused(
        "loss train_step embedding_train_step",
        INVALID,
        *[(f"smoothing_prior.*{m}", prior(change)) for m, change in PRIORS],
        (
            "smoothing_prior is for a label_smoothing above 0",
            {"smoothing_prior": SMALL.row_shares()},
        ),
        tree=SMALL,
    ),
    # Shapes, which graphs know too.
    *refused(
        "loss train_step",
        INVALID,
        ("row_groups .*for this tree", {"weights": part, "biases": part}),
        ("inputs", {"labels": part}),
        traced=True,
    ),
    *refused(
        DOWN,
        INVALID,
        ("row_below .*this tree", {"weights": part, "biases": part}),
        traced=True,
    ),
    *refused("top_k", INVALID, ("row_below", {"tree": FLAT})),
    *refused(
        f"loss train_step {DOWN}",
        INVALID,
        ("biases", {"biases": part}),
        ("inputs", {"inputs": lambda x: x[:, :-1]}),
        traced=True,
    ),
    *refused(
        f"loss {DOWN}",
        INVALID,
        ("inputs|labels|classes", {"inputs": lambda x: x[0, 0]}),
        ("weights", {"weights": lambda w: w[0]}),
        traced=True,
    ),
    *refused(
        "log_prob",
        INVALID,
        ("classes", {"classes": part}),
        ("classes", {"classes": 0}),
        traced=True,
    ),
    *refused(
        "train_step",
        INVALID,
        ("biases", {"biases": lambda b: tf.Variable(b.numpy().astype("f8"))}),
        (
            r"loss_weights must .* has the shape \[5\]",
            {"loss_weights": np.ones(5)},
        ),
    ),
    *refused(
        "label_tree_loss",
        (ValueError, INVALID),
        (r"labels, of shape \(1,\), must have the shape", {"labels": [3]}),
        (r"labels, of shape \(\), must have the shape", {"labels": 3}),
        ("width|shape|must be equal", {"inputs": lambda x: x[:, :-1]}),
        ("must be equal|weights", {"weights": lambda w: w[:5]}),
    ),
    # Allowed classes.
    *refused(
        "top_k sample log_prob label_tree_top_k",
        (INVALID, TypeError, ValueError),
        (r"outside.*\[0, 60\)", {"allowed": [60]}),
        (r"outside.*\[0, 60\)", {"allowed": [3, -2]}),
        (
            "allowed must be integers, but are float32",
            {"allowed": np.float32([1.5])},
        ),
        ("allowed must be a list of classes", {"allowed": 7}),
        ("allowed must have the shape", {"allowed": np.ones([3, 3], int)}),
        (
            "allowed must have a boolean for each class",
            {"allowed": np.ones([59], bool)},
        ),
        ("allowed must have the shape", {"allowed": np.ones([4, 60], bool)}),
    ),
    *refused(
        "top_k",
        ValueError,
        ("renormalize needs allowed", {"renormalize": True}),
    ),
    *refused(
        "log_prob label_tree_log_prob",
        ValueError,
        ("one of nodes and allowed", {"nodes": True, "allowed": [1]}),
    ),
    # Forests.
    *refused(
        "top_k",
        ValueError,
        (
            "renormalize needs root_log_probs",
            {"allowed": [1], "renormalize": True},
        ),
        tree=FOREST,
    ),
    *refused(
        "sample",
        (INVALID, ValueError),
        ("root_log_probs must be there", {"allowed": [1]}),
        *[
            (f"root_log_probs .*forest of {FOREST.num_roots} trees", options)
            for options in ({}, {"top_k": 3}, {"top_p": 0.5})
        ],
        tree=FOREST,
    ),
    *refused(
        DOWN,
        INVALID,
        *[
            (
                "root_log_probs must have the shape",
                {"root_log_probs": np.zeros(shape, np.float32)},
            )
            for shape in ([4, FOREST.num_roots - 1], [3, FOREST.num_roots])
        ],
        tree=FOREST,
        traced=True,
    ),
    *refused(
        "loss",
        INVALID,
        ("row_groups", {"weights": part, "biases": None}),
        tree=FOREST,
    ),
    *refused("label_tree_loss", INVALID, ("has one root", {}), tree=FOREST),
    # Pinned trees, of which others have the weights, or as many.
    *[
        each
        for weights_of, tree in (
            (PINNED.expand(), PINNED),
            (PINNED, PINNED.expand()),
        )
        for each in refused(
            f"loss train_step {DOWN}",
            INVALID,
            (
                "weights must be made for this tree",
                {
                    "weights": new([weights_of.num_weight_rows, WIDTH]),
                    "biases": None,
                },
            ),
            tree=tree,
        )
    ],
    *refused(
        "loss",
        INVALID,
        ("biases must", {"biases": new([PINNED.num_rows])}),
        tree=PINNED,
    ),
    *refused(
        "label_tree_loss label_tree_top_k label_tree_log_prob"
        " label_tree_train_step",
        ValueError,
        (r"pinned.*tree\.expand\(\)", {}),
        tree=PINNED,
    ),
    # Variables.
    *[
        each
        for convert in (lambda v: v.read_value(), lambda v: v.numpy())
        for names, argument in (
            (STEPS, "weights"),
            (STEPS, "biases"),
            ("embedding_train_step", "vectors"),
        )
        for each in refused(
            names,
            TypeError,
            (f"{argument} must be a variable", {argument: convert}),
        )
    ],
    *refused(
        "train_step embedding_train_step",
        ValueError,
        ("stochastic_rounding is for bfloat16", {"stochastic_rounding": True}),
    ),
    *refused(
        "embedding_train_step",
        (INVALID, ValueError),
        ("vectors must have the width", {"vectors": new([COUNT, WIDTH - 1])}),
        ("vectors must have the shape", {"vectors": new([WIDTH])}),
        traced=True,
    ),
    *refused(
        "embedding_train_step",
        (INVALID, ValueError),
        (
            "vectors must be float, but is double",
            {"vectors": new([COUNT, WIDTH], np.float64)},
        ),
    ),
    # Indices and bags.
    *refused(
        "embedding_train_step",
        (INVALID, TypeError, ValueError),
        (rf"indices\[3\] = {COUNT}", {"indices": [0, 0, 0, COUNT]}),
        (r"indices\[0\] = -1", {"indices": [-1, 0, 0, 0]}),
        (r"indices\[0\]", {"indices": [COUNT] * 4, "ignore_class": 0}),
        ("indices must have the shape of labels", {"indices": [1, 2, 3]}),
        ("indices must be integers", {"indices": [0.5] * 4}),
        (
            rf"indices\[1\] = {COUNT}",
            {"indices": bags([1, COUNT, 2], [0, 1, 2, 3, 3])},
        ),
        (
            "splits must ascend from 0 to 3",
            {"indices": bags([1, 2, 3], [0, 4, 3, 3, 3])},
        ),
        (r"splits\[0\] = 1", {"indices": bags([1, 2, 3], [1, 2, 3, 3, 3])}),
        (r"splits\[4\] = 2", {"indices": bags([1, 2, 3], [0, 1, 1, 1, 2])}),
        (
            "splits must have the shape",
            {"indices": bags([1, 2, 3], [0, 1, 2, 3])},
        ),
        (
            "row splits of indices",
            {**ALONE, "index_weights": bags([1, 2, 3], [0, 2, 2, 2, 3])},
        ),
        (
            "index_weights must have the shape",
            {**ALONE, "index_weights": [1.0, 2.0]},
        ),
        ("index_weights are for bags", {"index_weights": [1.0] * 4}),
        ("combiner must be 'mean' or 'sum'", {**ALONE, "combiner": "max"}),
        (
            r"must be \[B, None\]",
            {"indices": tf.ragged.constant([[[1]], [[2]], [[3]], [[4]]])},
        ),
        (
            "indices must be integers",
            {"indices": tf.ragged.constant([[1.5], [2.0], [1.0], []])},
        ),
    ),
]


@pytest.mark.parametrize("name, error, message, tree, traced, changes", REFUSED)
def test_refused(name, error, message, tree, traced, changes):
    """Eagerly an error says what is wrong; where shapes do, in a graph too."""
    given, optimizer, held = given_to(name, tree)
    for argument, value in changes.items():
        is_function = callable(value) and not tf.is_tensor(value)
        given[argument] = value(given[argument]) if is_function else value
    if "optimizer" in given:
        trained = [given.get(k) for k in ("weights", "biases", "vectors")]
        held = [v for v in trained if isinstance(v, tf.Variable)]
        optimizer = given["optimizer"] = built("adagrad", held)
    before = states(optimizer, held)
    with pytest.raises(error, match=message):
        FUNCTIONS[name](**given)
    assert_same(states(optimizer, held), before)
    assert int(optimizer.iterations) == 0
    if traced:
        call = tf.function(lambda: FUNCTIONS[name](**given), autograph=False)
        with pytest.raises(ValueError):
            call.get_concrete_function()


@pytest.mark.parametrize("name", FUNCTIONS)
def test_no_tree(name):
    """A number of classes in the place of the tree, as other losses take it."""
    given, *_ = given_to(name)
    function = FUNCTIONS[name]
    options = [{}, {"allowed": [1, 2]}, {"allowed": [1], "renormalize": True}]
    known = inspect.signature(function).parameters.keys()
    for option in (o for o in options if o.keys() <= known):
        for wrong, match in (
            (100, "int; tf_hsm.Tree.two_level"),
            ("tree", "str"),
            (None, "N"),
        ):
            with pytest.raises(
                TypeError, match=f"tree must be a tf_hsm.Tree, but is {match}"
            ):
                function(**{**given, "tree": wrong}, **option)
    function(**given)


@pytest.mark.parametrize(
    "make",
    [
        layers.HierarchicalSoftmax,
        layers.LabelTree,
        lambda n: layers.EmbeddingSoftmax(n, num_embeddings=3, width=2),
        lambda n: tf_hsm.TreeHead(np.zeros([110, 8]), np.zeros(110), n),
        lambda n: tf_hsm.LabelCounts.of(n, [[1]]),
        lambda n: tf_hsm.LabelCounts.expected(n, [1], examples=2),
        lambda n: tf_hsm.distribute.plan(n, 2),
    ],
)
def test_no_tree_elsewhere(make):
    for wrong in (100, np.int64(100)):
        with pytest.raises(TypeError, match=r"but is int.*two_level\(100\)"):
            make(wrong)


@pytest.mark.parametrize("by", ["weights", "inputs"])
@pytest.mark.parametrize("name", ["loss", "log_probs"])
def test_second_order(name, by):
    """There is no gradient of the gradient, and nobody is told zero."""
    given, *_ = given_to(name)
    given["inputs"] = tf.Variable(given["inputs"])
    for target in (given["weights"], given["inputs"]):
        with tf.GradientTape() as outer:
            with tf.GradientTape() as inner:
                total = tf.reduce_sum(FUNCTIONS[name](**given) ** 2)
            first = inner.gradient(total, given[by])
            first = tf.convert_to_tensor(first)
        with pytest.raises(LookupError):
            outer.gradient(first, target)


@pytest.mark.parametrize("kind", [tf.identity, tf.Variable])
@pytest.mark.parametrize("name", ["log_prob", "top_k", "label_tree_log_prob"])
def test_what_has_no_gradient_says_so(name, kind):
    given, *_ = given_to(name)
    given["weights"] = kind(given["weights"])
    given["inputs"] = x = tf.Variable(given["inputs"])
    with tf.GradientTape() as tape:
        found = FUNCTIONS[name](**given)
        found = getattr(found, "log_probs", found)
    with pytest.raises(LookupError, match="has no gradient: train"):
        tape.gradient(found, x)


@pytest.mark.parametrize(
    "name, argument, message",
    [
        ("train_step", "weights", "different variables|biases"),
        ("embedding_train_step", "vectors", "must be different variables"),
    ],
)
def test_one_variable_in_two_places(name, argument, message):
    given, *_ = given_to(name)
    if argument == "weights":
        given["biases"] = given["weights"]
    given[argument] = given["weights"]
    given["optimizer"] = built("sgd", [given["weights"], given["biases"]])
    with pytest.raises(INVALID, match=message):
        FUNCTIONS[name](**given)


@pytest.mark.parametrize("place", ["weights", "vectors"])
def test_variables_on_another_device(monkeypatch, place):
    """The error says what to use there."""
    given, _, held = given_to("embedding_train_step")
    elsewhere, here = given[place], held[0].device
    device = "/job:localhost/replica:0/task:0/device:GPU:0"
    monkeypatch.setattr(
        type(held[0]),
        "device",
        property(lambda v: device if v is elsewhere else here),
    )
    with pytest.raises(ValueError, match=rf"{place} must be on a CPU.*gather"):
        FUNCTIONS["embedding_train_step"](**given)


@pytest.mark.parametrize(
    "name, options, message",
    [
        ("log_prob", {"nodes": True}, "nodes is not"),
        ("label_tree_loss", {}, "a label tree is not possible on"),
    ],
)
def test_what_gpus_do_not_have(monkeypatch, name, options, message):
    """Before the op is called, which would read the arrays as another tree."""
    given, _, held = given_to(name)
    device = "/job:localhost/replica:0/task:0/device:GPU:0"
    monkeypatch.setattr(type(held[0]), "device", device)
    with pytest.raises(tf.errors.UnimplementedError, match=message):
        FUNCTIONS[name](**given, **options)
