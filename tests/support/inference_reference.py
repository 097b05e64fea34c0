"""Log-probabilities, their gradients, rankings and beams in float64 NumPy.

Like `oracle`, written as the formulas of docs/math.md read, one group at a
time, and beside each value a bound on the rounding error of an implementation.
"""

import math

import ml_dtypes
import numpy as np

from tests.support import oracle


def node_log_probs(tree, problem):
    """Computes log p(row | x) of all rows, and bounds on the errors.

    The bounds follow from the same assumptions and in the same symbols as those
    of `oracle.hierarchical_softmax`: along a path the errors e of its groups'
    log-softmaxes add up, and each sum is rounded once.

    Args:
        tree: A `tf_hsm.Tree`.
        problem: An `oracle.Problem`; its labels and upstream are not used.

    Returns:
        Two arrays `[B, R]`.
    """
    z, z_error, _ = _logits(problem)
    u = oracle.sum_roundoff(problem.weights.dtype)
    values, errors = np.zeros(z.shape), np.zeros(z.shape)
    levels = np.ones(z.shape[1])
    for group, rows in _groups(tree):
        parent = tree.group_parents[group]
        shifted = z[:, rows] - z[:, rows].max(1, keepdims=True)
        lse = np.log(np.exp(shifted).sum(1, keepdims=True))
        values[:, rows] = shifted - lse
        errors[:, rows] = _softmax_error(z[:, rows], z_error[:, rows], u)
        if parent >= 0:
            values[:, rows] += values[:, [parent]]
            errors[:, rows] += errors[:, [parent]]
            levels[rows] += levels[parent]
    return values, errors + (levels + 1) * u * abs(values)


def gradients(tree, problem, upstream):
    """Computes the gradients of sum(upstream * node_log_probs), and bounds.

    With A the same sums as S of magnitudes, and n the number of terms in the
    longest chain of sums, the errors of

        S_row   = upstream of the row + S_group of the group below it
        S_group = sum of S_row over its rows
        dz_r    = S_row - S_group p(row | group)

    are n u A_row and n u A_group, and p(row | group), made as the exponential
    of a difference of log-probabilities, has their relative error.

    Args:
        tree: A `tf_hsm.Tree`.
        problem: An `oracle.Problem`.
        upstream: `[B, R]`, the gradient by each row's log-probability.

    Returns:
        An `oracle.Result` without losses of the values, and one of the bounds.
    """
    x, w = _float64(problem.inputs), _float64(problem.weights)
    z, z_error, slope = _logits(problem)
    dtype = problem.weights.dtype
    u = oracle.sum_roundoff(dtype)
    log_probs, _ = node_log_probs(tree, problem)
    sums, sizes = np.array(upstream, np.float64), abs(_float64(upstream))
    dz, dz_error = np.zeros(z.shape), np.zeros(z.shape)
    terms = np.zeros(z.shape[1])
    smallest = float(ml_dtypes.finfo(oracle.accumulator(dtype)).tiny)
    for group, rows in reversed(list(_groups(tree))):
        parent = tree.group_parents[group]
        above = log_probs[:, [parent]] if parent >= 0 else 0.0
        given_group = log_probs[:, rows] - above
        p = np.exp(given_group)
        total = sums[:, rows].sum(1, keepdims=True)
        size = sizes[:, rows].sum(1, keepdims=True)
        n = p.shape[1] + terms[rows].max()
        relative = _softmax_error(z[:, rows], z_error[:, rows], u) + u * (
            8 + n + 2 * abs(log_probs[:, rows]) + 2 * abs(given_group)
        )
        dz[:, rows] = sums[:, rows] - total * p
        dz_error[:, rows] = (
            n * u * sizes[:, rows]
            + size * (p * relative + smallest)
            + 2 * u * abs(dz[:, rows])
        )
        if parent >= 0:
            sums[:, [parent]] += total
            sizes[:, [parent]] += size
            terms[parent] = n
    if problem.logit_soft_cap is not None:
        dz_error += 2 * (z_error / problem.logit_soft_cap + 4 * u) * abs(dz)
        dz *= slope
    value = oracle.Result(None, dz @ w, dz.T @ x, dz.sum(0))
    batch, rows = z.shape
    size = abs(dz)
    bound = oracle.Result(
        None,
        (dz_error + rows * u * size) @ abs(w),
        (dz_error + batch * u * size).T @ abs(x),
        (dz_error + batch * u * size).sum(0),
    )
    for name in ("dx", "dw", "db"):
        its = problem.inputs.dtype if name == "dx" else dtype
        oracle.add_rounding(getattr(bound, name), getattr(value, name), its)
    return value, bound


def by_class(tree, of_rows):
    """Picks those of the leaves, `[..., N]`, from values of rows `[..., R]`."""
    return of_rows[..., tree.class_rows]


def by_row(tree, of_classes):
    """The opposite: `[..., R]`, zero for rows that are no leaves."""
    of_rows = np.zeros([*of_classes.shape[:-1], tree.num_rows])
    of_rows[..., tree.class_rows] = of_classes
    return of_rows


def ranking(log_probs):
    """Sorts classes, best first, ties by class, NaN as minus infinity.

    Args:
        log_probs: `[..., N]`.

    Returns:
        `[..., N]`, classes.
    """
    return np.argsort(-_keys(log_probs), axis=-1, kind="stable")


def ranked(values, k, mask=True, bounds=None):
    """The best values and classes of each row, -inf and -1 for no class."""
    found = np.full([len(values), k], -np.inf), np.full([len(values), k], -1)
    for i, row in enumerate(values):
        classes = ranking(row)
        classes = classes[np.broadcast_to(mask, values.shape)[i, classes]]
        if bounds is not None:
            keys = np.fmax(row[classes], -np.inf)
            least = np.fmax(bounds[i], np.finfo(values.dtype).min)
            classes = classes[keys >= least]
        classes = classes[:k]
        found[0][i, : classes.size] = row[classes]
        found[1][i, : classes.size] = classes
    return found


def beam_search(tree, nodes, k, beam_width):
    """Searches for one example with at most `beam_width` groups per level.

    Args:
        tree: A `tf_hsm.Tree`.
        nodes: `[R]`, the log-probabilities of all rows.
        k: How many classes are wanted.
        beam_width: How many groups are opened at a time.

    Returns:
        The classes, best first, and the number of nodes that were left out with
        a log-probability no smaller than that of the last class.
    """
    keys = _keys(nodes)
    open_rows, left_out, found = [-1], [], []

    def that_could_matter(rows):
        if len(found) < k:
            return rows
        worst = max(np.sort(keys[found])[-k], -np.finfo(float).max)
        return [row for row in rows if keys[row] >= worst]

    while True:
        if not open_rows and len(found) < k:
            open_rows, left_out = left_out, []
        # Where not all fit, the beam keeps the later ones of equal nodes.
        open_rows = sorted(open_rows, key=lambda row: (-keys[row], -row))
        open_rows = that_could_matter(open_rows)
        left_out += open_rows[beam_width:]
        if not open_rows:
            break
        opened, open_rows = open_rows[:beam_width], []
        for row in opened:
            group = 0 if row < 0 else tree.row_children[row]
            rows = np.arange(*tree.group_offsets[group : group + 2])
            is_leaf = tree.row_classes[rows] >= 0
            found += rows[is_leaf].tolist()
            open_rows += rows[~is_leaf].tolist()
    classes = tree.row_classes[found]
    best = np.lexsort((classes, -keys[found]))[:k]
    return classes[best], len(that_could_matter(left_out))


def p_value(draws, probs):
    """That of a chi-square test: near 0 if `probs` are not those of `draws`.

    Classes that are expected less than ten times count as one. The statistic's
    cube root is nearly normal (Wilson and Hilferty, 1931).
    """
    expected = draws.size * probs
    observed = np.bincount(draws.ravel(), minlength=probs.size)
    is_rare = expected < 10
    if is_rare.any():
        observed = [*observed[~is_rare], observed[is_rare].sum()]
        expected = [*expected[~is_rare], expected[is_rare].sum()]
    observed, expected = np.float64(observed), np.float64(expected)
    if not (observed[expected == 0] == 0).all():
        return 0.0
    observed, expected = observed[expected > 0], expected[expected > 0]
    freedom = max(len(expected) - 1, 1)
    statistic = ((observed - expected) ** 2 / expected).sum()
    spread = 2 / (9 * freedom)
    normal = (statistic / freedom) ** (1 / 3) - (1 - spread)
    return math.erfc(normal / math.sqrt(2 * spread)) / 2


def assert_near(actual, expected, bound, name="values"):
    """Asserts, element by element, that |actual - expected| <= bound."""
    actual = np.asarray(actual).astype(np.float64)
    assert actual.shape == expected.shape, name
    error = abs(actual - expected)
    # Written so that a NaN fails too.
    bad = ~(error <= bound)
    assert not bad.any(), (
        f"{name}: {bad.sum()} of {bad.size} elements are off, first at"
        f" {np.argwhere(bad)[0]}: error {error[bad][0]:.3g}, bound"
        f" {bound[bad][0]:.3g}"
    )


def _groups(tree):
    offsets = tree.group_offsets.tolist()
    return enumerate(map(slice, offsets[:-1], offsets[1:]))


def _logits(problem):
    """The logits, bounds on the errors of any sum of their terms, and slopes.

    A slope is the derivative of a logit, which a soft cap bends.
    """
    x, w = _float64(problem.inputs), _float64(problem.weights)
    b = 0.0 if problem.biases is None else _float64(problem.biases)
    u = oracle.sum_roundoff(problem.weights.dtype)
    v = oracle.operand_roundoff(problem.weights.dtype)
    size = abs(x) @ abs(w).T + abs(b)
    z, slope = oracle.capped(x @ w.T + b, problem.logit_soft_cap)
    error = ((x.shape[1] + 1) * u + 2 * v) * size
    return z, error + 4 * u * (problem.logit_soft_cap or 0), slope


def _softmax_error(z, z_error, u):
    """Bounds the absolute error of a group's log-softmax, `[B, 1]`."""
    worst = 2 * z_error.max(1, keepdims=True)
    return worst + u * (z.shape[1] + 8 + np.ptp(z, 1, keepdims=True))


def _keys(log_probs):
    return np.where(np.isnan(log_probs), -np.inf, log_probs)


def _float64(array):
    return np.asarray(array).astype(np.float64)
