"""Valid calls of every raw op, on small random problems."""

import dataclasses
import functools
import itertools

import ml_dtypes
import numpy as np

import tf_hsm
from tests.support import forests, oracle, point_calls
from tests.support.op_calls import Call
from tf_hsm.runtime.tree_tensors import (
    child_tensors,
    mask_tensors,
    path_tensors,
    tree_tensors,
)

INFERENCE = (
    "log_probs",
    "log_probs_grad",
    "top_k",
    "sample",
    "class_log_probs",
    "label_ranks",
)
# What answers on weights of 8 and 4 bits.
ON_CODES = [op for op in INFERENCE if op != "log_probs_grad"]
LOSSES = ("loss", "loss_grad", "label_tree_loss")
# Ops that take the state of a loss.
FROM_STATE = ("loss_grad", "loss_step")
SMOOTHED = ("loss", "train_step", "embedding_train_step")
STEPS = (
    "train_step",
    "embedding_train_step",
    "label_tree_train_step",
    "loss_step",
    "sparse_update",
)
# (name without prefix, whether the parameters are variables)
OPS = [
    ("count_keys", False),
    *itertools.product(INFERENCE + LOSSES, [False, True]),
    *itertools.product(STEPS, [True]),
    *itertools.product(point_calls.OPS, [False]),
]
DTYPES = (np.float32, ml_dtypes.bfloat16, np.float16, np.float64)
# Slots per parameter.
RULES = {
    "sgd": 0,
    "adagrad": 1,
    "rowwise_adagrad": 1,
    "adam": 2,
    "rmsprop": 1,
    "rmsprop_momentum": 2,
    "rmsprop_centered": 2,
    "rmsprop_centered_momentum": 3,
    "lion": 1,
}
# Groups of 1, 2, few and many rows; even and ragged; one level and 30. The
# last ones take the most time and come up the least.
_TREES = {
    "two_level_30": lambda: tf_hsm.Tree.two_level(30),
    "binary_12": lambda: tf_hsm.Tree.balanced(12, 2),
    "huffman_6": lambda: tf_hsm.Tree.huffman([9, 5, 1, 1, 7, 2]),
    "pinned_9": lambda: tf_hsm.Tree.balanced(9, 2).pin(),
    "huffman_31": lambda: tf_hsm.Tree.huffman(2.0 ** np.arange(31)),
    "single": lambda: tf_hsm.Tree.two_level(1),
    "flat_70": lambda: tf_hsm.Tree.balanced(70, 70),
    "pinned_40": lambda: tf_hsm.Tree.huffman(range(1, 41)).pin(),
    "wide_2100": lambda: tf_hsm.Tree.balanced(2100, [35, 60]),
    # Not of label trees, as are the pinned ones.
    "forest_33": lambda: _below_top(
        tf_hsm.Tree.huffman(range(1, 49), branching=3)
    ),
    "forest_of_leaves": lambda: _below_top(tf_hsm.Tree.two_level(30)),
}
_BATCHES = [(), (0,), (1,), (5,), (1,), (5,), (2, 3), (40,)]
_WIDTHS = [0, 1, 3, 8, 17, 33, 64]


def _below_top(tree):
    return forests.cut(tree, forests.some_rows(tree, 1)).forest


@functools.cache
def _tree(name):
    tree = _TREES[name]()
    return tree, {
        kind: {k: [v.numpy()] for k, v in tensors(tree)._asdict().items()}
        for kind, tensors in [
            ("below", child_tensors),
            ("paths", path_tensors),
            ("all", tree_tensors),
            ("mask", mask_tensors),
            # For labels that are rows.
            ("paths of rows", functools.partial(path_tensors, nodes=True)),
            ("all of rows", functools.partial(tree_tensors, nodes=True)),
        ]
    }


def small_call(op, tree="two_level_30", on_variables=False, mode=None, seed=0):
    """Makes a `valid_call` that is always the same: a batch of 3, width 4.

    With a mode of quantized weights, the parameters must be variables.
    """
    return valid_call(
        op,
        on_variables,
        np.random.default_rng(seed),
        dtype=np.float32,
        tree=tree,
        batch=(3,),
        width=4,
        mode=mode,
    )


def valid_call(
    op,
    on_variables,
    rng,
    dtype=None,
    tree=None,
    batch=None,
    width=None,
    mode=None,
):
    """Makes a right call of an op on a random problem, with random options.

    Args:
        op: One of OPS: the name.
        on_variables: And whether its parameters are variables.
        rng: A NumPy generator.
        dtype: The parameters' type; random by default, like the next ones.
        tree: A key of the trees here.
        batch: The shape of the labels, a tuple.
        width: The width of a row.
        mode: "int8" or "int4", for quantized weights. By default some calls
            on variables of a random type have them.

    Returns:
        A Call.
    """
    if op in point_calls.OPS:
        return point_calls.valid_call(op, rng)

    def pick(value, values, power=1):
        """The value; by default one of the values, or of the first ones."""
        at = int(len(values) * rng.random() ** power)
        return values[at] if value is None else value

    is_any_dtype = dtype is None
    dtype = pick(dtype, DTYPES)
    from_state, any_tree = op if op in FROM_STATE else None, tree is None
    if from_state:
        op = "label_tree_loss" if any_tree and rng.integers(4) == 0 else "loss"
    has_label_sets = op.startswith("label_tree")
    trees = [
        name
        for name in _TREES
        if not (has_label_sets and name.startswith(("forest", "pinned")))
    ]
    tree, arrays = _tree(pick(tree, trees, 2))
    batch, width = pick(batch, _BATCHES), pick(width, _WIDTHS, 2)
    accumulator = oracle.accumulator(dtype)

    def normal(*shape, of=dtype):
        return rng.normal(size=shape).astype(of)

    call = Call(op, on_variables, {}, {})
    if op == "count_keys":
        _add_key_counts(call, rng, int(np.prod(batch)))
        return call
    if on_variables:
        call.attributes["T"] = dtype
    add = call.arguments.update
    if op == "sparse_update":
        _add_sparse_update(call, rng, dtype, width)
        return call
    rows = tree.num_weight_rows
    add(weights=[normal(rows, width)])
    add(biases=[normal(rows)] if rng.integers(4) else [])
    if not has_label_sets:
        call.attributes["pinned"] = tree.pinned
    inputs = [normal(*batch, width, of=pick(None, DTYPES))]
    if op in INFERENCE:
        add(inputs=inputs, **arrays["below"])
        starts = normal(*batch, tree.num_roots, of=accumulator)
        is_given = tree.num_roots > 1 or rng.integers(2)
        add(root_log_probs=[starts] if is_given else [], scales=[])
        _add_inference(call, rng, tree, arrays, batch, accumulator)
        can_be_quantized = on_variables and op in ON_CODES
        if is_any_dtype and can_be_quantized and dtype == np.float32:
            mode = [None, "int8", "int4"][rng.integers(3)]
        if mode is not None:
            _quantize(call, rng, mode)
        return call
    integer = [np.int32, np.int64][rng.integers(2)]
    of_labels = (*batch, int(rng.integers(4))) if has_label_sets else batch
    of_rows, size = "", tree.num_classes
    if not has_label_sets:
        of_rows, size = _label_kind(rng, tree)
    add(labels=[rng.integers(size, size=of_labels).astype(integer)])
    if rng.integers(3) == 0:
        call.attributes["ignore_classes"] = [-1, 2**40][: rng.integers(1, 3)]
        labels = call.arguments["labels"][0]
        call.arguments["labels"][0] = np.where(
            rng.integers(3, size=of_labels) == 0, integer(-1), labels
        )
    if not has_label_sets:
        _add_smoothing(call, rng, tree)
    if op == "embedding_train_step":
        _add_indices(call, rng, batch, integer, accumulator)
    else:
        add(inputs=inputs)
    add(**arrays["all" + of_rows])
    if op in LOSSES:
        call.attributes["Taccumulator"] = accumulator
        if from_state:
            loss_grads = normal(*batch, of=accumulator)
            state = call.run().state
            call = _from_state(from_state, call, loss_grads, state)
            if from_state == "loss_step":
                call.arguments["moved"] = [np.array(rng.integers(2) == 1)]
                _add_step(call, rng, dtype, width)
            return call
        call.attributes["with_gradients"] = bool(rng.integers(2))
        return call
    add(loss_grads=[normal(*batch, of=accumulator)])
    _add_step(call, rng, dtype, width)
    return call


def _add_key_counts(call, rng, size):
    known = np.unique(rng.integers(9 * size + 1, size=3 * size))
    call.arguments.update(
        keys=[rng.integers(-3, 20 * size + 1, size=40 * size)],
        known=[known],
        known_counts=[rng.integers(2**40, size=known.size)],
    )


def _quantize(call, rng, mode):
    """Puts codes in the place of the weights, and their scales."""
    rows = tf_hsm.quantize_rows(call.arguments["weights"][0], mode)
    scales = rows.scales.numpy()
    if rng.integers(4) == 0:
        scales = rows.scales.value()  # not a variable
    call.arguments.update(weights=[rows.codes.numpy()], scales=[scales])


def _add_smoothing(call, rng, tree):
    """Often none, or none towards a prior."""
    call.arguments["smoothing_prior"] = []
    if rng.integers(4):
        return
    call.attributes["label_smoothing"] = 1 - float(rng.random())
    if rng.integers(2):
        prior = oracle.random_prior(tree, int(rng.integers(2**31)))
        call.arguments["smoothing_prior"] = [prior]


def _from_state(op, loss, loss_grads, state):
    arguments = {
        "weights": loss.arguments["weights"],
        "biases": loss.arguments["biases"],
        "loss_grads": [loss_grads],
        "state": [state],
    }
    kept = {k: v for k, v in loss.attributes.items() if k == "T"}
    return Call(op, loss.on_variables, arguments, kept)


def _add_inference(call, rng, tree, arrays, batch, accumulator):
    def normal(*shape, of):
        return rng.normal(size=shape).astype(of)

    def scalar(value):
        return [np.array(value)]

    def up_to(most):
        return int(rng.integers(1, most + 1))

    def add_sigmoids():
        is_possible = bool(rng.integers(2)) and not tree.pinned
        call.attributes["has_sigmoids"] = is_possible

    op, add = call.op, call.arguments.update
    if not op.endswith("grad"):
        call.attributes["Taccumulator"] = accumulator
    if op.startswith("log_probs"):
        of_nodes = call.attributes["of_nodes"] = bool(rng.integers(2))
        size = [tree.num_classes, tree.num_rows][of_nodes]
    if op == "log_probs_grad":
        forward = dataclasses.replace(call, op="log_probs")
        forward.attributes = {**call.attributes, "Taccumulator": accumulator}
        made = forward.run()
        add(
            log_probs=[made.log_probs.numpy()],
            group_log_probs=[made.group_log_probs.numpy()],
            grads=[normal(*batch, size, of=accumulator)],
        )
    elif op == "top_k":
        add_sigmoids()
        add(
            k=scalar(up_to(min(tree.num_classes, 50))),
            beam_width=scalar(up_to(4) - 1),
            bounds=[normal(*batch, of=accumulator) - 4][: rng.integers(2)],
            **_mask(rng, *arrays["mask"]["row_spans"], tree, batch),
        )
    elif op == "sample":
        add(
            num_samples=scalar(up_to(5) - 1),
            seed=[rng.integers(2**62, size=2)],
            temperature=scalar(rng.random() + 0.1),
            top_k=scalar(up_to(tree.num_classes) * int(rng.integers(2))),
            top_p=scalar(rng.choice([1.0, 0.5, 1e-9])),
        )
    elif op == "class_log_probs":
        shape = (*batch, int(rng.integers(4)))
        integer = [np.int32, np.int64][rng.integers(2)]
        least = -len(call.arguments["root_log_probs"])
        of_rows, size = _label_kind(rng, tree)
        classes = rng.integers(least, size, size=shape).astype(integer)
        add_sigmoids()
        add(**arrays["paths" + of_rows], classes=[classes])
    elif op == "label_ranks":
        labels = rng.integers(-1, tree.num_classes, size=batch)
        add(**arrays["paths"], labels=[labels])
        add(k=scalar(up_to(tree.num_classes)))


def _label_kind(rng, tree):
    """Whether labels are rows, as names here say it; how many there are."""
    if rng.integers(4):
        return "", tree.num_classes
    return " of rows", tree.num_rows


def _mask(rng, row_spans, tree, batch):
    """A mask of one list for all examples, or of one for each; or none."""
    given = rng.integers(2)
    lists = [1, int(np.prod(batch))][rng.integers(2)]
    counts = rng.integers(6, size=lists)
    ranks = [np.sort(rng.integers(tree.num_classes, size=n)) for n in counts]
    ranks = np.concatenate([np.zeros(0, np.int64), *ranks])
    splits = np.concatenate([[0], np.cumsum(counts)])
    return {
        "row_spans": [row_spans][:given],
        "allowed_ranks": [ranks][:given],
        "allowed_splits": [splits.astype(np.int64)][:given],
    }


def _slots(rng, rule, parameter):
    """The slots of a parameter, positive numbers."""
    shape = parameter.shape
    if rule == "rowwise_adagrad":
        shape = shape[:1]
    slots = rng.random((RULES[rule], *shape)) + 0.1
    return list(slots.astype(oracle.accumulator(parameter.dtype)))


def _add_rule(call, rng):
    """Adds a rule and its numbers; returns its name."""
    rule = call.attributes["rule"] = str(rng.choice(list(RULES)))
    call.attributes["stochastic_rounding"] = bool(rng.integers(2))
    call.arguments.update(
        hyperparameters=[np.array([0.1, 0.9, 0.99, 1e-7])],
        seed=[np.array(rng.integers(2**62))],
    )
    return rule


def _add_step(call, rng, dtype, width):
    rule = _add_rule(call, rng)
    weights, biases = call.arguments["weights"][0], call.arguments["biases"]
    call.arguments.update(
        weight_slots=_slots(rng, rule, weights),
        bias_slots=_slots(rng, rule, biases[0]) if biases else [],
    )
    if call.op == "embedding_train_step":
        count = _num_vectors(call.arguments["indices"][0].shape)
        vectors = rng.normal(size=(count, width)).astype(dtype)
        call.arguments["vectors"] = [vectors]
        call.arguments["vector_slots"] = _slots(rng, rule, vectors)
    elif call.op != "loss_step":
        call.attributes["with_gradients"] = bool(rng.integers(2))


def _num_vectors(shape):
    return 5 + int(np.prod(shape))


def _add_indices(call, rng, batch, integer, accumulator):
    """Adds indices of vectors: one, or a bag, for each label.

    Some come many times, some once, some never.
    """
    shape, splits, weights = batch, [], []
    if len(batch) == 1 and rng.integers(2):
        splits = [np.append(0, np.cumsum(rng.integers(4, size=batch)))]
        shape = splits[0][-1:]
        weights = [rng.random(shape).astype(accumulator)][: rng.integers(2)]
        call.attributes["combiner"] = str(rng.choice(["sum", "mean"]))
    indices = _num_vectors(shape) * rng.random(shape) ** 3
    call.arguments.update(
        indices=[indices.astype(integer)],
        splits=splits,
        index_weights=weights,
    )


def _add_sparse_update(call, rng, dtype, width):
    rule = _add_rule(call, rng)
    rows, count = int(rng.integers(1, 40)), int(rng.choice([0, 1, 7, 90]))
    shape = [(), (width,), (2, width)][rng.integers(3)]
    weights = rng.normal(size=(rows, *shape)).astype(dtype)
    integer = [np.int32, np.int64][rng.integers(2)]
    values = rng.normal(size=(count, *shape)).astype(oracle.accumulator(dtype))
    call.arguments.update(
        weights=[weights],
        slots=_slots(rng, rule, weights),
        indices=[rng.integers(rows, size=count).astype(integer)],
        values=[values],
    )
