"""The loss and its gradients in float64 NumPy, one row of the paths at a time.

Written as the formulas of docs/math.md read, with no regard for speed, and
beside each result a bound on the rounding error of an implementation.
"""

import contextlib
import dataclasses

import ml_dtypes
import numpy as np

# See rounded_operands.
_operand_roundoff = 0.0


@dataclasses.dataclass(frozen=True)
class Problem:
    """The arguments of one loss, without the tree.

    Attributes:
        inputs: `[B, D]`.
        labels: `[B]`, int64.
        weights: `[R, D]`.
        biases: `[R]`, or None.
        upstream: `[B]`, the gradient that reaches each example's loss;
            float64 for float64 problems, float32 for all others.
        label_smoothing: the share of each group's target that is spread over
            the group.
        smoothing_prior: `[R]`, what each row has of that, where a group's
            numbers sum to 1; None: all alike.
        logit_soft_cap: the c of logits c tanh(z / c); None: no cap.
        z_loss: the factor of the square of a group's log of summed
            exponentials, which the loss has in addition.
    """

    inputs: np.ndarray
    labels: np.ndarray
    weights: np.ndarray
    biases: np.ndarray | None
    upstream: np.ndarray
    label_smoothing: float = 0.0
    smoothing_prior: np.ndarray | None = None
    logit_soft_cap: float | None = None
    z_loss: float = 0.0

    def replace(self, **changes):
        return dataclasses.replace(self, **changes)


@dataclasses.dataclass(frozen=True)
class Result:
    """The loss and its gradients, or the bounds on their errors; float64.

    Attributes:
        loss: `[B]`, in nats; None for gradients alone.
        dx: `[B, D]`, of sum(upstream * loss); dw and db likewise.
        dw: `[R, D]`.
        db: `[R]`.
    """

    loss: np.ndarray | None
    dx: np.ndarray
    dw: np.ndarray
    db: np.ndarray

    @classmethod
    def zeros(cls, problem):
        batch, rows = len(problem.inputs), len(problem.weights)
        return cls(
            np.zeros(batch),
            np.zeros(problem.inputs.shape),
            np.zeros(problem.weights.shape),
            np.zeros(rows),
        )


class OneGroup:
    """A tree of one group with its rows in class order: the full softmax."""

    depth, pinned = 1, False

    def __init__(self, num_classes):
        self.num_classes = self.num_rows = num_classes
        self.group_offsets = np.array([0, num_classes])
        self.group_parents = np.array([-1])
        self.class_rows = np.arange(num_classes)


def random_problem(tree, batch, dim, dtype, seed=0):
    """Draws a problem whose logits have a standard deviation of about 2."""
    rng = np.random.default_rng(seed)
    dtype = np.dtype(dtype)
    inputs = rng.normal(size=[batch, dim]) / np.sqrt(max(dim, 1))
    return Problem(
        inputs=inputs.astype(dtype),
        labels=rng.integers(tree.num_classes, size=batch),
        weights=(2 * rng.normal(size=[tree.num_rows, dim])).astype(dtype),
        biases=rng.normal(size=tree.num_rows).astype(dtype),
        upstream=rng.normal(size=batch).astype(accumulator(dtype)),
    )


def random_prior(tree, seed=0):
    """Draws a prior of label smoothing `[R]`, float32, with some zeros.

    The numbers of each group sum to 1 exactly.
    """
    rng = np.random.default_rng(seed)
    prior = np.zeros(tree.num_rows, np.float32)
    for rows in map(slice, tree.group_offsets[:-1], tree.group_offsets[1:]):
        parts = rng.choice([8, 2**20])
        cuts = rng.integers(parts + 1, size=rows.stop - rows.start - 1)
        cuts = np.concatenate([[0], np.sort(cuts), [parts]])
        prior[rows] = np.diff(cuts) / parts
    return prior


def accumulator(dtype):
    """Returns the type of losses and of sums: float64, or float32."""
    return np.dtype(np.float64 if dtype == np.float64 else np.float32)


def path_rows(tree, label):
    """Yields the rows of a path, from the leaf to a child of the root."""
    row = tree.class_rows[label]
    while row >= 0:
        yield row
        row = tree.group_parents[_group_of(tree, row)]


def touched_rows(tree, labels, ignore_class=None):
    """Returns the rows of every group on a path of a label, sorted."""
    groups = {
        _group_of(tree, row)
        for label in labels
        if label != ignore_class
        for row in path_rows(tree, label)
    }
    offsets = tree.group_offsets
    rows = [np.arange(offsets[g], offsets[g + 1]) for g in sorted(groups)]
    return np.concatenate([np.zeros(0, np.int64), *rows])


def hierarchical_softmax(tree, problem, ignore_class=None, operands=None):
    """Computes the loss and its gradients, and bounds on their errors.

    The bounds hold for an implementation that reads the problem's numbers as
    they are, computes and accumulates in `accumulator(dtype)` in any order, and
    rounds each gradient once, to the problem's type. They follow from the
    numbers at hand by first-order rounding error analysis (Higham, Accuracy
    and Stability of Numerical Algorithms, 2nd ed., section 3.1), with u the
    unit roundoff of the accumulator, and a sum of n terms being off by at most
    n u times the sum of the terms' magnitudes:

        dz' = (D + 1) u max over the group of (|w_r| . |x| + |b_r|)
              error of a logit, equally of the largest one
        e   = 2 dz' + (K + C + range) u
              relative error of exp(z_r - max) / sum: the logits', that of a
              sum of K positive terms, of the shift by the largest logit
              (range = max - min), of exp, log and the division (C = 8)
        loss: the sum of e over the path's L groups, and L u (loss); and with
              label smoothing s, s K u max |z| for the mean of the logits
        dz  : e p_r + u [row is on the path], and 2 u |dz| for upstream; and
              s (K + C) u (t + [row is on the path]) for the mean row, in which
              the row has the share t, 1/K or the prior's
        capped logits: 4 u c more; their slope is off by 2 (dz' / c + 4 u)
        z-loss of factor f: with l the log of the sum, off by
              l' = dz' + (K + C + |l|) u, 2 f |l| l' and f l'^2 of the loss,
              and 2 f (|l| e + l') p_r of dz
        dx, dw, db: the error of dz carried through their sums, and n u times
              the sum of the magnitudes, n = the number of terms; and half a
              unit in the last place of the problem's type.

    With operands of products off by a relative v (`rounded_operands`), each
    product is off by 2 v: dz' has 2 v max (|w_r| . |x|) more, and dz, for
    the products that make dx and dw of it, 2 v (p_r + |dz|).

    Args:
        tree: A `tf_hsm.Tree`.
        problem: A `Problem`.
        ignore_class: A label whose examples have loss 0 and no gradient.
        operands: The type of the weights that the implementation reads, if not
            the problem's.

    Returns:
        A `Result` with the values, and one with the bounds, element by element.
    """
    x, w, upstream = (
        np.asarray(array, np.float64)
        for array in (problem.inputs, problem.weights, problem.upstream)
    )
    has_biases = problem.biases is not None
    b = np.asarray(problem.biases if has_biases else np.zeros(len(w)), float)
    dtype = problem.weights.dtype
    s, f = problem.label_smoothing, problem.z_loss
    c = problem.logit_soft_cap or 0
    u = sum_roundoff(dtype)
    v = operand_roundoff(np.dtype(operands or dtype))
    # The error of a coefficient too small for half, as the kernels scale it.
    tiny = 2.0**-38 * abs(upstream).max(initial=0) if v > 0 else 0.0
    value, magnitude = Result.zeros(problem), Result.zeros(problem)
    bound = Result.zeros(problem)
    terms = np.zeros(len(x))
    # Each row of a path, with all examples on whose paths it is.
    examples = {}
    for i, label in enumerate(problem.labels):
        if label != ignore_class:
            for row in path_rows(tree, label):
                examples.setdefault(row, []).append(i)
    for row, its in examples.items():
        rows = _siblings(tree, row)
        xs, above = x[its], upstream[its, np.newaxis]
        z, slope = capped(xs @ w[rows].T + b[rows], problem.logit_soft_cap)
        on_path = np.arange(rows.start, rows.stop) == row
        largest = z.max(1, keepdims=True)
        lse = largest + np.log(np.exp(z - largest).sum(1, keepdims=True))
        p = np.exp(z - lse)
        size = z.shape[1]
        shares = np.full(size, 1 / size)
        if problem.smoothing_prior is not None:
            shares = problem.smoothing_prior[rows].astype(np.float64)
        target = (1 - s) * on_path + s * shares
        dz = above * (p - target + 2 * f * lse * p) * slope
        value.loss[its] += lse[:, 0] - z @ target + f * lse[:, 0] ** 2
        value.dx[its] += dz @ w[rows]
        value.dw[rows] += dz.T @ xs
        value.db[rows] += dz.sum(0)

        z_magnitude = abs(xs) @ abs(w[rows]).T + abs(b[rows])
        z_magnitude = z_magnitude.max(1, keepdims=True)
        z_error = ((xs.shape[1] + 1) * u + 2 * v) * z_magnitude + 4 * u * c
        e = 2 * z_error + (size + 8 + np.ptp(z, 1, keepdims=True)) * u
        lse_error = z_error + (size + 8 + abs(lse)) * u
        dz_error = abs(above) * (e * p + u * on_path)
        dz_error += 2 * f * abs(above) * p * (abs(lse) * e + lse_error)
        dz_error += 2 * (u + v) * abs(dz)
        dz_error += 2 * v * abs(above) * p + tiny
        mean_error = s * (size + 8) * u
        dz_error += abs(above) * mean_error * (on_path + shares)
        if c > 0:
            dz_error += 2 * (z_error / c + 4 * u) * abs(dz / slope)
        terms[its] += size
        magnitude.dx[its] += abs(dz) @ abs(w[rows])
        magnitude.dw[rows] += abs(dz).T @ abs(xs)
        magnitude.db[rows] += abs(dz).sum(0)
        bound.loss[its] += (e + mean_error * z_magnitude)[:, 0]
        bound.loss[its] += f * ((2 * abs(lse) + lse_error) * lse_error)[:, 0]
        bound.dx[its] += dz_error @ abs(w[rows])
        bound.dw[rows] += dz_error.T @ abs(xs)
        bound.db[rows] += dz_error.sum(0)
    bound.loss[:] += (tree.depth + 1) * u * value.loss
    bound.dx[:] += terms[:, np.newaxis] * u * magnitude.dx
    bound.dw[:] += len(x) * u * magnitude.dw
    bound.db[:] += len(x) * u * magnitude.db
    for name in ("dx", "dw", "db"):
        error, exact = getattr(bound, name), getattr(value, name)
        add_rounding(error, exact, dtype, accumulator(dtype))
    return value, bound


def capped(logits, cap):
    """Returns logits with a soft cap or None, and their slope in the logits."""
    if cap is None:
        return logits, 1.0
    ratio = np.tanh(logits / cap)
    return cap * ratio, 1 - ratio**2


def finite_differences(function, array, step=1e-5):
    """Returns d function / d array by central differences, in float64."""
    array = np.array(array, np.float64)
    gradient = np.zeros_like(array)
    for index in np.ndindex(array.shape):
        center = array[index]
        array[index] = center + step
        above = function(array)
        array[index] = center - step
        below = function(array)
        array[index] = center
        gradient[index] = (above - below) / (2 * step)
    return gradient


def unit_roundoff(dtype):
    """Returns the largest relative error of rounding to `dtype`."""
    return float(ml_dtypes.finfo(dtype).eps) / 2


def sum_roundoff(dtype):
    """Returns the unit roundoff of sums of numbers of `dtype`.

    In float64 it is doubled, because the reference rounds as well.
    """
    return unit_roundoff(accumulator(dtype)) * (1 + (dtype == np.float64))


def add_rounding(error, exact, dtype, sums=None):
    """Adds to a bound, in place, the error of one rounding to `dtype`.

    Numbers whose type `sums` is the same are not rounded.
    """
    if sums is None or dtype != sums:
        error += unit_roundoff(dtype) * (abs(exact) + error)
    # A number below the smallest normal one keeps an absolute precision.
    error += float(ml_dtypes.finfo(dtype).smallest_normal)


@contextlib.contextmanager
def rounded_operands():
    """Bounds are those of tensor cores, where these are used.

    Operands of products, but not their sums, keep the 10 explicit bits of
    TensorFloat-32, or those of the problem's type where these are fewer.
    """
    global _operand_roundoff
    _operand_roundoff = 2.0**-11
    yield
    _operand_roundoff = 0.0


def operand_roundoff(dtype):
    """Returns how far an operand of a product is rounded, relative to it."""
    if dtype == np.float64 or _operand_roundoff == 0:
        return 0.0
    return max(_operand_roundoff, unit_roundoff(dtype))


def _group_of(tree, row):
    return int(np.searchsorted(tree.group_offsets, row, side="right")) - 1


def _siblings(tree, row):
    group = _group_of(tree, row)
    return slice(*tree.group_offsets[group : group + 2])
