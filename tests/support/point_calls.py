"""Valid calls of the ops on clusters of points, on small random problems."""

import numpy as np

from tests.support.op_calls import Call

OPS = ("split_points", "exchange_points")


def valid_call(op, rng):
    """Makes a right call of an op of OPS, with a NumPy generator."""
    families, clusters = rng.integers(5), rng.integers(1, 9)
    sizes = rng.integers(1, 5, (families, clusters))
    # Some places before each cluster are in none.
    gaps = rng.integers(3, size=sizes.shape)
    starts = np.cumsum(gaps + sizes).reshape(sizes.shape) - sizes
    count = int((gaps + sizes).sum() + rng.integers(3))
    width = int(rng.integers(1, 40))
    call = Call(op, False, {}, {"max_iterations": int(rng.integers(1, 9))})
    call.attributes["seed"] = int(rng.integers(99))
    call.arguments.update(
        points=[rng.standard_normal((count, width), np.float32)],
        order=[rng.permutation(count)],
    )
    if op == "split_points":
        pairs = np.stack([starts, starts + sizes], axis=2)
        runs = pairs.reshape(-1)[: pairs.size // 4 * 4].reshape(-1, 4)
        return _with(call, runs=runs[:, [0, 1, 3]])
    splits = np.triu(rng.integers(-2, 3, (families, clusters, clusters)), 1)
    splits = (splits + splits.transpose(0, 2, 1)).astype(np.float32)
    call.attributes["rounds"] = int(rng.integers(1, 9))
    return _with(call, starts=starts, sizes=sizes, splits=splits)


def _with(call, **arguments):
    call.arguments.update({name: [x] for name, x in arguments.items()})
    return call
