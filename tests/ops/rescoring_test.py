"""Top-k of quantized weights that the original rows rank anew."""

import dataclasses

import numpy as np
import pytest
import tensorflow as tf

import tf_hsm
from tests.support import (
    inference_reference,
    label_tree_reference,
    oracle,
    references,
)
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
    "forest": references.build("below huffman_3"),
}
KINDS = ["softmax", "sigmoids"]
MODES = ["int8", "int4"]
CASES = [
    (name, kind)
    for name in TREES
    for kind in KINDS
    if kind == "softmax" or name not in ("pinned", "forest")
]


@dataclasses.dataclass
class Model:
    """Weights whose codes are searched, and what is asked of them."""

    tree: tf_hsm.Tree
    weights: np.ndarray
    biases: np.ndarray | None
    inputs: np.ndarray
    mode: str = "int8"
    kind: str = "softmax"
    as_array: bool = False

    def __post_init__(self):
        self.weights = np.asarray(self.weights, "float32")
        self.rows = tf_hsm.quantize_rows(self.weights, self.mode)
        self.originals = self.weights.copy()
        if not self.as_array:
            self.originals = tf.Variable(self.weights)
        self.rows.keep(self.originals)

    def top(self, k, rescore, inputs=None, **options):
        """Asks for the best classes, ranked by the original rows."""
        inputs = self.inputs if inputs is None else inputs
        options.setdefault("biases", self.biases)
        find = tf_hsm.hierarchical_softmax_top_k
        if self.kind == "sigmoids":
            find = tf_hsm.label_tree_top_k
        return find(
            self.rows,
            inputs=inputs,
            tree=self.tree,
            k=k,
            rescore=rescore,
            **options,
        )

    def log_probs(self, weights, cap=None, starts=None):
        """The log-probabilities `[B, N]` that weights give, in float64."""
        weights, inputs = (np.float64(a) for a in (weights, self.inputs))
        if self.kind == "sigmoids":
            return label_tree_reference.label_log_probs(
                weights, self.biases, inputs, self.tree
            )
        problem = oracle.Problem(
            inputs, None, weights, self.biases, None, logit_soft_cap=cap
        )
        nodes, _ = references.node_log_probs(self.tree, problem)
        if starts is not None:
            nodes = nodes + starts[:, references.roots_of_rows(self.tree)]
        return inference_reference.by_class(self.tree, nodes)

    def check(self, k, rescore, allowed=None, cap=None, starts=None):
        """Every certain answer is the answer of the original rows.

        Returns:
            Which answers are certain, `[B]`.
        """
        options = {
            "allowed": allowed,
            "logit_soft_cap": cap,
            "root_log_probs": starts,
        }
        options = {k: v for k, v in options.items() if v is not None}
        found = self.top(k, rescore, **options)
        assert found.certain.dtype == tf.bool
        exact = self.log_probs(self.weights, cap, starts)
        ranked = exact
        if allowed is not None:
            ranked = np.full_like(exact, -np.inf)
            ranked[:, allowed] = exact[:, allowed]
        classes = found.classes.numpy()
        values = np.take_along_axis(exact, classes, 1)
        np.testing.assert_allclose(
            found.log_probs, values, rtol=1e-5, atol=1e-5
        )
        assert (np.diff(found.log_probs.numpy(), axis=1) <= 0).all()
        best = -np.sort(-ranked, axis=1)
        certain = found.certain.numpy()
        for row in np.flatnonzero(certain):
            # The k largest values, whichever of equal ones are listed.
            np.testing.assert_allclose(
                values[row], best[row, :k], rtol=2e-6, atol=2e-6
            )
            if (np.diff(best[row, : k + 1]) < -1e-5).all():
                order = np.argsort(-ranked[row], kind="stable")[:k]
                assert classes[row].tolist() == order.tolist()
        return certain


def drawn(tree, width=20, seed=0, spread=0.5, **options):
    """Returns a Model whose best classes stand out a little."""
    rng = np.random.default_rng(seed)
    shape = [tree.num_weight_rows, width]
    weights = rng.normal(size=shape).astype("float32") * spread
    inputs = rng.normal(size=[40, width]) * rng.uniform(0.1, 3, [40, 1])
    biases = rng.normal(size=shape[0]).astype("float32")
    return Model(tree, weights, biases, inputs.astype("float32"), **options)


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


@pytest.mark.parametrize(
    "case, mode, as_array", all_pairs(CASES, MODES, [False, True])
)
def test_certain_answers_are_right(case, mode, as_array):
    """Heads may have log-probabilities of roots, or a soft cap, no biases."""
    name, kind = case
    tree = TREES[name]
    found = []
    for width, seed in ((3, 1), (65, 2)):
        options = {"mode": mode, "kind": kind, "as_array": as_array}
        model, options = drawn(tree, width, seed, **options), {}
        if name == "forest" and seed == 1:
            options["starts"] = references.random_starts(tree, 40, np.float32)
            options["starts"][0, 1:] = -np.inf
        elif (name, kind, seed) == ("flat", "softmax", 1):
            model.biases, options["cap"] = None, 3.0
        for k, rescore in ((1, 1), (1, 5), (3, 3), (3, 20), (2, 10**6)):
            if k <= tree.num_classes:
                certain = model.check(k, rescore, **options)
                assert rescore < tree.num_classes or certain.all()
                found.append(certain)
    found = np.concatenate(found)
    assert found.any() and (tree.num_classes == 1 or not found.all())


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(("name", "kind"), CASES)
def test_the_bound_is_the_scalar_bound(name, kind, mode):
    tree = TREES[name]
    model = drawn(tree, 65, mode=mode, kind=kind)
    model.inputs[3:6, 2:] = 0  # The other norm has the smaller bound.
    bound = ErrorBound.of(model.rows, tree, kind == "sigmoids")
    found, is_safe = bound.at(model.inputs, model.biases)
    assert is_safe.numpy().all()
    decoded = model.rows.numpy()
    exact, moved = map(model.log_probs, (model.weights, decoded))
    for i, error in enumerate(found.numpy()):
        expected = error_bound(
            tree, model.weights, decoded, model.inputs[i], kind
        )
        # Beyond it, there is rounding alone.
        assert expected <= error < expected * 1.01 + 5e-3
        assert abs(exact[i] - moved[i]).max() <= expected * (1 + 1e-9)


def test_a_class_that_the_codes_rank_last():
    """The best class of the original rows is not among the candidates."""
    # A scale of 1, and codes of 0.
    weights = [[127, x] for x in (0.4, 0.45, 0.49, 0.1)]
    inputs = np.float32([[0, 1], [0.001, 1]])
    model = Model(tf_hsm.Tree.flat(4), weights, None, inputs)
    for rescore in (1, 2, 3):
        found = model.top(1, rescore)
        assert found.classes.numpy().tolist() == [[min(rescore, 3) - 1]] * 2
        assert not found.certain.numpy().any()
    found = model.top(2, 4)
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
    weights = drawn(tree, 8).weights
    # Rows that are equal but for the codes' errors.
    weights = weights[0] + rng.normal(size=weights.shape) * 0.02
    weights = weights.astype("float32")
    errors = weights - tf_hsm.quantize_rows(weights, mode).numpy()
    pairs = rng.integers(len(weights), size=[200, 2])
    directions = errors[pairs[:, 0]] - errors[pairs[:, 1]]
    largest = 9 if mode == "int4" else 12
    inputs = directions * np.exp(rng.uniform(0, largest, [200, 1]))
    biases = rng.normal(size=len(weights)).astype("float32") * 0.3
    model = Model(tree, weights, biases, inputs.astype("float32"), mode)
    searches = ((1, 2), (1, 10), (3, 6), (5, 30))
    shares = [model.check(*search).mean() for search in searches]
    assert 0 < np.mean(shares) < 1


def test_equal_log_probabilities_are_in_order_of_the_classes():
    weights = [[127, x] for x in [0, 0.1, 0.4, 0.2, 0.4] + 4 * [0]]
    # The codes rank class 8 first.
    biases = np.float32([0] * 8 + [0.05])
    model = Model(tf_hsm.Tree.flat(9), weights, biases, np.float32([[0, 1]]))
    classes = model.top(9, 9).classes.numpy()
    assert classes.tolist() == [[2, 4, 3, 1, 8, 0, 5, 6, 7]]
    floats = tf_hsm.hierarchical_softmax_top_k(
        model.weights, biases, model.inputs, model.tree, 9
    )
    np.testing.assert_array_equal(classes, floats.classes)


@pytest.mark.parametrize("as_array", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_allowed_classes(kind, as_array):
    model = drawn(TREES["two levels"], kind=kind, as_array=as_array)
    for rescore in (2, 4, 6, 9):
        certain = model.check(2, rescore, allowed=[3, 7, 20, 21, 22, 50])
        assert certain.all() == (rescore >= 6)
    few = model.top(3, 5, biases=None, allowed=[8, 4])
    assert few.certain.numpy().all()
    assert (np.sort(few.classes.numpy())[:, :1] == -1).all()
    assert (few.classes.numpy()[:, 2] == -1).all()
    assert np.isneginf(few.log_probs.numpy()[:, 2]).all()


@pytest.mark.parametrize("name", ["two levels", "pinned"])
def test_files_are_read_and_graphs_ask(name, tmp_path):
    model = drawn(TREES[name], 65)
    np.save(tmp_path / "rows.npy", model.weights)
    found = model.top(3, 9)
    model.rows.keep(np.load(tmp_path / "rows.npy", mmap_mode="r"))
    asked = tf.function(
        lambda x: model.top(3, 9, x),
        input_signature=[tf.TensorSpec([None, None, 65])],
    )
    graph = asked(model.inputs[:, np.newaxis])
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

    model = drawn(tree, 5)
    given = model.biases, np.tile([7, 60], [40, 1]), model.inputs, tree
    found = visited_rows.log_probs(
        model.weights.view(Spy), *given, {"root_log_probs": None}, {}
    )
    expected = tf_hsm.hierarchical_softmax_log_prob(model.weights, *given)
    np.testing.assert_array_equal(found, expected)
    on_paths = set()
    for row in np.concatenate([tree.path(7), tree.path(60)]):
        group = tree.row_groups[row]
        on_paths.update(range(*tree.group_offsets[group : group + 2]))
    assert sorted(read) == sorted(on_paths)
    assert len(read) < tree.num_rows


@pytest.mark.parametrize("as_array", [False, True])
def test_inputs_that_are_not_finite(as_array):
    model = drawn(TREES["two levels"], as_array=as_array)
    model.inputs[0, 3] = np.nan
    model.inputs[1, 3] = np.inf
    model.inputs[2] = 3e38
    for rescore in (5, 90):
        certain = model.top(2, rescore).certain.numpy()
        assert not certain[:3].any() and certain[3:].any()
    none = model.top(2, 5, model.inputs[:0])
    assert none.classes.shape == (0, 2) and none.certain.shape == (0,)


@pytest.mark.parametrize("mode", MODES)
def test_subnormal_scales(mode):
    """An op may take subnormal scales for 0, where NumPy does not."""
    rng = np.random.default_rng(0)
    weights = (rng.normal(size=[100, 8]) * 3e-37).astype("float32")
    inputs = (rng.normal(size=[200, 8]) / 3e-37).astype("float32")
    found = Model(tf_hsm.Tree.flat(100), weights, None, inputs, mode).top(1, 5)
    best = (inputs.astype("float64") @ weights.T.astype("float64")).argmax(1)
    certain = found.certain.numpy()
    classes = found.classes.numpy()[:, 0]
    np.testing.assert_array_equal(classes[certain], best[certain])


@pytest.mark.parametrize(
    "way, kind, mode, as_array",
    all_pairs(
        ["assign", "checkpoint", "array", "graph"], KINDS, MODES, [False, True]
    ),
)
def test_nothing_is_certain_with_other_codes(
    way, kind, mode, as_array, tmp_path
):
    """Rows or originals change unseen by `keep`, or by a graph."""
    options = {"mode": mode, "kind": kind, "as_array": as_array}
    model = drawn(TREES["two levels"], spread=2, **options)
    rows, changed = model.rows, np.roll(model.weights, 5, 0)
    other = tf_hsm.quantize_rows(changed, mode)
    # All classes make even int4 certain.
    k = 90 if mode == "int4" else 20
    asked = tf.function(lambda x: model.top(1, k, x).certain)
    assert model.top(1, 90).certain.numpy().all()
    assert asked(model.inputs).numpy().any()
    if way == "array" and as_array:
        model.originals[:] = changed
    elif way == "array":
        model.originals.assign(changed)
    elif way == "graph":
        rows.assign(changed)
    elif way == "assign":
        rows.codes.assign(other.codes)
        rows.scales.assign(other.scales)
    else:
        path = tf.train.Checkpoint(rows=other).write(str(tmp_path / "other"))
        tf.train.Checkpoint(rows=rows).read(path).assert_consumed()
    assert not asked(model.inputs).numpy().any()
    if way != "graph":
        assert not model.top(1, 90).certain.numpy().any()


@pytest.mark.parametrize("as_array", [False, True])
@pytest.mark.parametrize("bias", [-np.inf, np.nan, -1e9])
def test_a_huge_bias_makes_no_answer_certain(bias, as_array):
    """`allowed` rules out a class, and leaves the answers certain."""
    model = drawn(TREES["two levels"], spread=2, as_array=as_array)
    most = model.top(1, 20).classes.numpy().max()
    changed = model.biases.copy()
    changed[model.tree.class_rows[most - 1]] = bias
    assert not model.top(1, 20, biases=changed).certain.numpy().any()
    assert model.top(1, 20, allowed=range(89)).certain.numpy().any()


def test_bad_originals():
    model = drawn(TREES["two levels"])
    rows, weights = model.rows, model.weights
    for assigned in (False, True):
        if assigned:
            rows.assign(weights)
            match = "needs the original rows: pass them"
            with pytest.raises(ValueError, match=match):
                model.top(2, 4)
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
        assert (rows.originals is None) == assigned


def test_bad_arguments():
    model = drawn(TREES["two levels"])
    for error, match, k, rescore in (
        (ValueError, "rescore = 3 is below k = 4", 4, 3),
        (TypeError, "must be an integer", 2, 4.0),
        (TypeError, "must be an integer", 2, True),
        (TypeError, "must be an integer", tf.constant(2), 4),
        (ValueError, r"k = 0 is outside \[1, 90\]", 0, 100),
        (ValueError, r"k = 91 is outside \[1, 90\]", 91, 100),
    ):
        with pytest.raises(error, match=match):
            model.top(k, rescore)
    for option, value in {
        "beam_width": 3,
        "return_pruned": True,
        "threshold": 0.1,
        "bounds": np.zeros(40),
        "renormalize": True,
    }.items():
        allowed = {"allowed": [1, 2]} if option == "renormalize" else {}
        with pytest.raises(ValueError, match=option):
            model.top(2, 4, **{option: value}, **allowed)
    with pytest.raises(ValueError, match="needs weights in 8 or 4 bits"):
        tf_hsm.hierarchical_softmax_top_k(
            model.weights, None, model.inputs, model.tree, 2, rescore=4
        )


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
