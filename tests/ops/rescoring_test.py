"""Top-k of quantized weights that the original rows rank anew."""

import itertools

import numpy as np
import pytest
import tensorflow as tf

import tf_hsm
from tests.support import forests
from tests.support.pairs import all_pairs
from tf_hsm.ops import visited_rows
from tf_hsm.ops.error_bound import ErrorBound

TREES = {
    "two levels": tf_hsm.Tree.two_level(90),
    "ragged": tf_hsm.Tree.balanced(61, [3, 4, 7]),
    "binary": tf_hsm.Tree.balanced(40, 2),
    "flat": tf_hsm.Tree.flat(50),
    "huffman": tf_hsm.Tree.huffman(1 / np.arange(1, 80)),
    "deep": tf_hsm.Tree.huffman(2.0 ** np.arange(20)),
    "pinned": tf_hsm.Tree.huffman(1 / np.arange(1, 50)).pin(),
    "one class": tf_hsm.Tree.two_level(1),
}
KINDS = ["softmax", "sigmoids"]
MODES = ["int8", "int4"]


def drawn(tree, width, seed=0, spread=0.5):
    """Weights, biases and inputs whose best classes stand out a little."""
    rng = np.random.default_rng(seed)
    shape = [tree.num_weight_rows, width]
    weights = rng.normal(size=shape).astype("float32") * spread
    inputs = rng.normal(size=[40, width]) * rng.uniform(0.1, 3, [40, 1])
    biases = rng.normal(size=shape[0])
    return weights, biases.astype("float32"), inputs.astype("float32")


def kept(weights, mode, as_array=False):
    rows = tf_hsm.quantize_rows(weights, mode)
    rows.keep(weights if as_array else tf.Variable(weights))
    return rows


def logits(tree, weights, biases, inputs, cap=None):
    """Returns the logits of all rows `[B, R]`, in float64."""
    z = inputs.astype("float64") @ weights.astype("float64").T
    if biases is not None:
        z = z + biases
    if cap is not None:
        z = cap * np.tanh(z / cap)
    if tree.pinned:
        z = np.stack([z, np.zeros_like(z)], 2).reshape(len(z), -1)
    return z


def brute_force(tree, weights, biases, inputs, kind, cap=None, starts=None):
    """Log-probabilities `[B, N]` of all classes, one group at a time."""
    z = logits(tree, weights, biases, inputs, cap)
    of_rows = -np.logaddexp(0, -z)
    for group, ends in enumerate(itertools.pairwise(tree.group_offsets)):
        rows = slice(*ends)
        if kind == "softmax":
            total = np.logaddexp.reduce(z[:, rows], 1, keepdims=True)
            of_rows[:, rows] = z[:, rows] - total
        above = tree.group_parents[group]
        if above >= 0:
            of_rows[:, rows] += of_rows[:, [above]]
        elif starts is not None:
            root = np.searchsorted(tree.root_groups, group)
            of_rows[:, rows] += starts[:, [root]]
    return of_rows[:, tree.class_rows]


def error_bound(tree, weights, decoded, x, kind):
    """The bound E(x) of one input, one class and one row at a time."""
    weights, decoded, x = (a.astype("float64") for a in (weights, decoded, x))
    bounds = []
    for order in (2, np.inf):
        dual = 2 if order == 2 else 1
        error = np.linalg.norm(weights - decoded, order, axis=1)
        error = error * np.linalg.norm(x, dual)
        if tree.pinned:
            error = np.repeat(error, 2)
        largest = 0
        for row in tree.class_rows:
            total = 0
            while row >= 0:
                group = tree.row_groups[row]
                total += error[row]
                if kind == "softmax" and not tree.pinned:
                    rows = slice(*tree.group_offsets[group : group + 2])
                    total += error[rows].max()
                row = tree.group_parents[group]
            largest = max(largest, total)
        bounds.append(largest)
    return min(bounds)


def ask(kind, *args, **options):
    if kind == "softmax":
        return tf_hsm.hierarchical_softmax_top_k(*args, **options)
    return tf_hsm.label_tree_top_k(*args, **options)


CASES = [
    (name, kind)
    for name in TREES
    for kind in KINDS
    if kind == "softmax" or not TREES[name].pinned
]


def check(tree, weights, biases, inputs, found, k, kind, allowed=None, **how):
    """Every certain answer is the answer of the original rows.

    Returns:
      The exact log-probabilities `[B, N]`.
    """
    exact = brute_force(tree, weights, biases, inputs, kind, **how)
    ranked = exact
    if allowed is not None:
        ranked = np.full_like(exact, -np.inf)
        ranked[:, allowed] = exact[:, allowed]
    classes = found.classes.numpy()
    values = np.take_along_axis(exact, classes, 1)
    np.testing.assert_allclose(found.log_probs, values, rtol=1e-5, atol=1e-5)
    assert (np.diff(found.log_probs.numpy(), axis=1) <= 0).all()
    best = -np.sort(-ranked, axis=1)[:, :k]
    for row, is_certain in enumerate(found.certain.numpy()):
        if is_certain:
            # The k largest values, whichever of equal ones are listed.
            np.testing.assert_allclose(
                values[row], best[row], rtol=2e-6, atol=2e-6
            )
            gaps = -np.diff(-np.sort(-ranked[row])[: k + 1])
            if (gaps > 1e-5).all():
                order = np.argsort(-ranked[row], kind="stable")[:k]
                assert classes[row].tolist() == order.tolist()
    return exact


@pytest.mark.parametrize(
    "case, mode, as_array", all_pairs(CASES, MODES, [False, True])
)
def test_certain_answers_are_right(case, mode, as_array):
    name, kind = case
    tree = TREES[name]
    counts = {False: 0, True: 0}
    for width, seed in ((3, 1), (65, 2)):
        weights, biases, inputs = drawn(tree, width, seed)
        rows = kept(weights, mode, as_array)
        for k, rescore in ((1, 1), (1, 5), (3, 3), (3, 20), (2, 10**6)):
            if k > tree.num_classes:
                continue
            found = ask(kind, rows, biases, inputs, tree, k, rescore=rescore)
            assert found.certain.dtype == tf.bool
            check(tree, weights, biases, inputs, found, k, kind)
            certain = found.certain.numpy()
            if rescore >= tree.num_classes:
                assert certain.all()
            counts[True] += certain.sum()
            counts[False] += (~certain).sum()
    assert counts[True]
    if tree.num_classes > 1:
        assert counts[False]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(("name", "kind"), CASES)
def test_the_bound_is_the_scalar_bound(name, kind, mode):
    tree = TREES[name]
    weights, biases, inputs = drawn(tree, 65)
    inputs[3:6, 2:] = 0  # The other norm has the smaller bound.
    rows = kept(weights, mode)
    bound = ErrorBound.of(rows, tree, kind == "sigmoids")
    found, is_safe = bound.at(inputs, biases)
    assert is_safe.numpy().all()
    decoded = rows.numpy()
    exact = brute_force(tree, weights, biases, inputs, kind)
    moved = brute_force(tree, decoded, biases, inputs, kind)
    for i, error in enumerate(found.numpy()):
        expected = error_bound(tree, weights, decoded, inputs[i], kind)
        # Beyond it, there is rounding alone.
        assert expected <= error < expected * 1.01 + 5e-3
        assert abs(exact[i] - moved[i]).max() <= expected * (1 + 1e-9)


def test_a_class_that_the_codes_rank_last():
    """The best class of the original rows is not among the candidates."""
    tree = tf_hsm.Tree.flat(4)
    weights = np.zeros([4, 2], "float32")
    weights[:, 0] = 127.0  # a scale of 1
    weights[:, 1] = [0.4, 0.45, 0.49, 0.1]  # codes of 0
    inputs = np.float32([[0, 1], [0.001, 1]])
    rows = kept(weights, "int8")
    for rescore in (1, 2, 3):
        found = tf_hsm.hierarchical_softmax_top_k(
            rows, None, inputs, tree, 1, rescore=rescore
        )
        assert found.classes.numpy().tolist() == [[min(rescore, 3) - 1]] * 2
        assert not found.certain.numpy().any()
    found = tf_hsm.hierarchical_softmax_top_k(
        rows, None, inputs, tree, 2, rescore=4
    )
    assert found.classes.numpy().tolist() == [[2, 1]] * 2
    assert found.certain.numpy().all()


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(
    "name", ["flat", "two levels", "ragged", "pinned", "binary"]
)
def test_inputs_along_the_errors_of_two_rows(name, mode):
    """The codes move these logits by almost as much as the bound says."""
    tree = TREES[name]
    rng = np.random.default_rng(3)
    weights, _, _ = drawn(tree, 8)
    # Rows that are equal but for the codes' errors.
    weights[:] = weights[0] + rng.normal(size=weights.shape) * 0.02
    weights = weights.astype("float32")
    rows = kept(weights, mode)
    errors = weights - rows.numpy()
    kind = "softmax"
    pairs = rng.integers(len(weights), size=[200, 2])
    directions = errors[pairs[:, 0]] - errors[pairs[:, 1]]
    largest = 9 if mode == "int4" else 12
    scales = np.exp(rng.uniform(0, largest, [200, 1]))
    inputs = (directions * scales).astype("float32")
    biases = rng.normal(size=len(weights)).astype("float32") * 0.3
    shares = []
    for k, rescore in ((1, 2), (1, 10), (3, 6), (5, 30)):
        found = ask(kind, rows, biases, inputs, tree, k, rescore=rescore)
        check(tree, weights, biases, inputs, found, k, kind)
        shares.append(found.certain.numpy().mean())
    assert 0 < np.mean(shares) < 1


def test_equal_log_probabilities_are_in_order_of_the_classes():
    tree = tf_hsm.Tree.flat(9)
    weights = np.float32([[127, x] for x in [0, 0.1, 0.4, 0.2, 0.4] + 4 * [0]])
    # The codes rank class 8 first.
    biases = np.float32([0] * 8 + [0.05])
    rows = kept(weights, "int8")
    found = tf_hsm.hierarchical_softmax_top_k(
        rows, biases, np.float32([[0, 1]]), tree, 9, rescore=9
    )
    assert found.classes.numpy()[0].tolist() == [2, 4, 3, 1, 8, 0, 5, 6, 7]
    floats = tf_hsm.hierarchical_softmax_top_k(
        weights, biases, np.float32([[0, 1]]), tree, 9
    )
    np.testing.assert_array_equal(found.classes, floats.classes)


@pytest.mark.parametrize("as_array", [False, True])
def test_forests(as_array):
    tree = tf_hsm.Tree.huffman(range(1, 49), branching=3)
    forest = forests.cut(tree, forests.some_rows(tree, 1)).forest
    assert forest.num_roots > 1
    weights, biases, inputs = drawn(forest, 20)
    rng = np.random.default_rng(1)
    starts = np.log(rng.dirichlet(np.ones(forest.num_roots), 40))
    starts[0, 1:] = -np.inf
    starts = starts.astype("float32")
    rows = kept(weights, "int8", as_array)
    found = tf_hsm.hierarchical_softmax_top_k(
        rows, biases, inputs, forest, 2, root_log_probs=starts, rescore=6
    )
    check(forest, weights, biases, inputs, found, 2, "softmax", starts=starts)
    assert 0 < found.certain.numpy().mean() < 1
    without = tf_hsm.hierarchical_softmax_top_k(
        rows, biases, inputs, forest, 2, rescore=6
    )
    check(forest, weights, biases, inputs, without, 2, "softmax")


@pytest.mark.parametrize("as_array", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_allowed_classes(kind, as_array):
    tree = TREES["two levels"]
    weights, biases, inputs = drawn(tree, 20)
    rows = kept(weights, "int8", as_array)
    allowed = [3, 7, 20, 21, 22, 50]
    for rescore in (2, 4, 6, 9):
        found = ask(
            kind,
            rows,
            biases,
            inputs,
            tree,
            2,
            rescore=rescore,
            allowed=allowed,
        )
        check(tree, weights, biases, inputs, found, 2, kind, allowed)
        assert found.certain.numpy().all() == (rescore >= 6)
    few = ask(kind, rows, None, inputs, tree, 3, rescore=5, allowed=[8, 4])
    assert few.certain.numpy().all()
    assert (np.sort(few.classes.numpy())[:, :1] == -1).all()
    assert (few.classes.numpy()[:, 2] == -1).all()
    assert np.isneginf(few.log_probs.numpy()[:, 2]).all()


def test_soft_caps_and_no_biases():
    tree = TREES["flat"]
    weights, _, inputs = drawn(tree, 20)
    for as_array in (False, True):
        rows = kept(weights, "int8", as_array)
        found = tf_hsm.hierarchical_softmax_top_k(
            rows, None, inputs, tree, 2, rescore=9, logit_soft_cap=3.0
        )
        check(tree, weights, None, inputs, found, 2, "softmax", cap=3.0)
        assert found.certain.numpy().any()


@pytest.mark.parametrize("name", ["two levels", "pinned"])
def test_files_are_read_and_graphs_ask(name, tmp_path):
    tree = TREES[name]
    weights, biases, inputs = drawn(tree, 65)
    np.save(tmp_path / "rows.npy", weights)
    rows = kept(weights, "int8")
    found = tf_hsm.hierarchical_softmax_top_k(
        rows, biases, inputs, tree, 3, rescore=9
    )
    rows.keep(np.load(tmp_path / "rows.npy", mmap_mode="r"))
    asked = tf.function(
        lambda x: tf_hsm.hierarchical_softmax_top_k(
            rows, biases, x, tree, 3, rescore=9
        ),
        input_signature=[tf.TensorSpec([None, None, 65])],
    )
    graph = asked(inputs[:, np.newaxis])
    assert graph.certain.shape == (40, 1)
    for one, other in zip(found, graph, strict=True):
        np.testing.assert_array_equal(one, other[:, 0])


def test_a_small_tree_has_the_groups_on_the_paths():
    tree = TREES["ragged"]
    read = []

    class Spy(np.ndarray):
        def __getitem__(self, rows):
            read.extend(range(tree.num_rows)[rows])
            return np.asarray(self)[rows]

    weights, biases, inputs = drawn(tree, 5)
    classes = np.tile([7, 60], [40, 1])
    found = visited_rows.log_probs(
        weights.view(Spy),
        biases,
        classes,
        inputs,
        tree,
        {"root_log_probs": None},
        {},
    )
    expected = tf_hsm.hierarchical_softmax_log_prob(
        weights, biases, classes, inputs, tree
    )
    np.testing.assert_array_equal(found, expected)
    on_paths = set()
    for row in np.concatenate([tree.path(7), tree.path(60)]):
        group = tree.row_groups[row]
        on_paths.update(range(*tree.group_offsets[group : group + 2]))
    assert sorted(read) == sorted(on_paths)
    assert len(read) < tree.num_rows


@pytest.mark.parametrize("as_array", [False, True])
def test_inputs_that_are_not_finite(as_array):
    tree = TREES["two levels"]
    weights, biases, inputs = drawn(tree, 20)
    inputs[0, 3] = np.nan
    inputs[1, 3] = np.inf
    inputs[2] = 3e38
    rows = kept(weights, "int8", as_array)
    for rescore in (5, 90):
        found = tf_hsm.hierarchical_softmax_top_k(
            rows, biases, inputs, tree, 2, rescore=rescore
        )
        assert not found.certain.numpy()[:3].any()
        assert found.certain.numpy()[3:].any()
    none = tf_hsm.hierarchical_softmax_top_k(
        rows, biases, inputs[:0], tree, 2, rescore=5
    )
    assert none.classes.shape == (0, 2) and none.certain.shape == (0,)


@pytest.mark.parametrize("mode", MODES)
def test_subnormal_scales(mode):
    """An op may take subnormal scales for 0, where NumPy does not."""
    tree = tf_hsm.Tree.flat(100)
    rng = np.random.default_rng(0)
    weights = (rng.normal(size=[100, 8]) * 3e-37).astype("float32")
    inputs = (rng.normal(size=[200, 8]) / 3e-37).astype("float32")
    rows = kept(weights, mode)
    found = tf_hsm.hierarchical_softmax_top_k(
        rows, None, inputs, tree, 1, rescore=5
    )
    best = (inputs.astype("float64") @ weights.T.astype("float64")).argmax(1)
    certain = found.certain.numpy()
    classes = found.classes.numpy()[:, 0]
    np.testing.assert_array_equal(classes[certain], best[certain])


def other_codes(rows, mode, way, folder):
    """Gives rows the codes of other weights, behind the back of `keep`."""
    other = tf_hsm.quantize_rows(np.roll(rows.numpy(), 5, 0), mode)
    if way == "assign":
        rows.codes.assign(other.codes)
        rows.scales.assign(other.scales)
    elif way == "checkpoint":
        path = tf.train.Checkpoint(rows=other).write(str(folder / "other"))
        tf.train.Checkpoint(rows=rows).read(path).assert_consumed()


@pytest.mark.parametrize(
    "way, kind, mode, as_array",
    all_pairs(
        ["assign", "checkpoint", "array", "graph"], KINDS, MODES, [False, True]
    ),
)
def test_nothing_is_certain_with_other_codes(
    way, kind, mode, as_array, tmp_path
):
    tree = TREES["two levels"]
    weights, biases, inputs = drawn(tree, 20, spread=2)
    originals = weights.copy() if as_array else tf.Variable(weights)
    rows = tf_hsm.quantize_rows(weights, mode)
    rows.keep(originals)

    @tf.function
    def asked(x):
        return ask(kind, rows, biases, x, tree, 1, rescore=20)

    # All classes make even int4 certain.
    every = ask(kind, rows, biases, inputs, tree, 1, rescore=90)
    assert every.certain.numpy().all()
    before = asked(inputs).certain.numpy()
    assert mode == "int4" or before.any()
    if way == "array":
        changed = np.roll(weights, 5, 0)
        if as_array:
            originals[:] = changed
        else:
            originals.assign(changed)
    elif way == "graph":
        rows.assign(np.roll(weights, 5, 0))
    else:
        other_codes(rows, mode, way, tmp_path)
    assert not asked(inputs).certain.numpy().any()
    if way != "graph":
        every = ask(kind, rows, biases, inputs, tree, 1, rescore=90)
        assert not every.certain.numpy().any()


@pytest.mark.parametrize("as_array", [False, True])
@pytest.mark.parametrize("bias", [-np.inf, np.nan, -1e9])
def test_a_huge_bias_makes_no_answer_certain(bias, as_array):
    """`allowed` rules out a class, and leaves the answers certain."""
    tree = TREES["two levels"]
    weights, biases, inputs = drawn(tree, 20, spread=2)
    rows = kept(weights, "int8", as_array)

    def top(biases, **options):
        return tf_hsm.hierarchical_softmax_top_k(
            rows, biases, inputs, tree, 1, rescore=20, **options
        )

    worst = tree.class_rows[top(biases).classes.numpy().max() - 1]
    changed = biases.copy()
    changed[worst] = bias
    assert not top(changed).certain.numpy().any()
    assert top(biases, allowed=range(89)).certain.numpy().any()


def test_bad_arguments():
    tree = TREES["two levels"]
    weights, biases, inputs = drawn(tree, 20)
    rows = tf_hsm.quantize_rows(weights)

    def top(k=2, rescore=4, rows=rows, **options):
        return tf_hsm.hierarchical_softmax_top_k(
            rows, biases, inputs, tree, k, rescore=rescore, **options
        )

    with pytest.raises(ValueError, match="needs the original rows: pass them"):
        top()
    with pytest.raises(ValueError, match="needs weights in 8 or 4 bits"):
        top(rows=weights)
    for wrong, error, match in (
        (weights[:, :9], ValueError, r"\(99, 20\)|shape"),
        (weights.astype("float64"), TypeError, "float32"),
        (weights.tolist(), TypeError, "a NumPy array"),
        (tf.constant(weights), TypeError, "a NumPy array"),
        (weights * np.nan, ValueError, "finite"),
        (np.roll(weights, 1, 0), ValueError, "row 0 is not the row"),
        (weights * 1.1, ValueError, "row 0 is not the row"),
    ):
        with pytest.raises(error, match=match):
            rows.keep(wrong)
    assert rows.originals is None
    rows.keep(weights)
    with pytest.raises(ValueError, match="rescore = 3 is below k = 4"):
        top(4, 3)
    for k, rescore in ((2, 4.0), (2, True), (tf.constant(2), 4)):
        with pytest.raises(TypeError, match="must be an integer"):
            top(k, rescore)
    for option, value in {
        "beam_width": 3,
        "return_pruned": True,
        "threshold": 0.1,
        "bounds": np.zeros(40),
    }.items():
        with pytest.raises(ValueError, match=option):
            top(**{option: value})
    with pytest.raises(ValueError, match="renormalize"):
        top(allowed=[1, 2], renormalize=True)
    for k in (0, 91):
        with pytest.raises(ValueError, match=rf"k = {k} is outside \[1, 90\]"):
            top(k, 100)
    rows.assign(weights)
    with pytest.raises(ValueError, match="needs the original rows: pass them"):
        top()


@pytest.mark.parametrize("mode", MODES)
def test_codes_are_known_from_other_codes(mode):
    """Extreme numbers, and rows of zeros, are the rows of their codes."""
    rng = np.random.default_rng(0)
    weights = rng.normal(size=[60, 65]).astype("float32")
    weights *= 10.0 ** rng.integers(-38, 37, size=[60, 1])
    weights[7] = 0
    weights[8] = -weights[9] * np.sign(weights[9, 0])
    weights = weights.astype("float32")
    rows = tf_hsm.quantize_rows(weights, mode)
    rows.keep(weights)
    difference = rows.numpy().astype("float64") - weights
    for found, expected in (
        (rows.originals.errors, np.linalg.norm(difference, axis=1)),
        (rows.originals.largest_errors, abs(difference).max(axis=1)),
    ):
        assert (found >= expected).all()
        # An op may take subnormal numbers for 0.
        np.testing.assert_allclose(found, expected, rtol=1e-6, atol=3e-35)
