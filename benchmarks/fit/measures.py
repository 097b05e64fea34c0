"""Measures of held-out examples, and of learning curves."""

import math

import numpy as np

NAMES = ("perplexity", "top1", "top10", "ndcg10")


def of_answers(log_probs, best, labels):
    """Returns a value for each of `NAMES`.

    Args:
      log_probs: `[n]` of the labels, in nats.
      best: `[n, 10]`, the most probable classes, the best one first.
      labels: `[n]`.
    """
    hits = np.asarray(best) == np.asarray(labels)[:, None]
    gains = 1 / np.log2(np.arange(2, hits.shape[1] + 2))
    return {
        "perplexity": float(np.exp(-np.mean(log_probs, dtype=np.float64))),
        "top1": float(hits[:, 0].mean()),
        "top10": float(hits.any(1).mean()),
        "ndcg10": float((hits * gains).sum(1).mean()),
    }


def points(num_steps, marks=()):
    """Returns the steps at which to measure, up to `num_steps`.

    They are 10, 20, 30, 60, 100, 200, and so on, and `marks`.
    """
    found = {num_steps, *(mark for mark in marks if mark <= num_steps)}
    scale = 10
    while scale <= num_steps:
        found |= {scale * k for k in (1, 2, 3, 6) if scale * k <= num_steps}
        scale *= 10
    return sorted(found)


def at_steps(run, steps, name):
    """Returns a measure of a run after so many steps; None if not measured."""
    values = {point["steps"]: point[name] for point in run["curve"]}
    return values.get(steps)


def elapsed(run, steps):
    """Returns the CPU seconds that a tree and so many steps take."""
    seconds = at_steps(run, steps, "cpu_seconds")
    return None if seconds is None else run["tree_seconds"] + seconds


def at_seconds(run, seconds, name):
    """Returns a measure of a run when it has taken so many seconds.

    Between two points of the curve the measure, of perplexity its logarithm,
    is linear in the logarithm of the seconds of training.

    Args:
      run: has "curve" and "tree_seconds", the time before the first step.
      seconds: of making the tree and of training.
      name: one of `NAMES`.

    Returns:
      `(value, is_last)`. `is_last` says that the run ends before that time, so
      that the value is its last one. The value is None if the first point is
      after that time.
    """
    left = seconds - run["tree_seconds"]
    times = [point["cpu_seconds"] for point in run["curve"]]
    values = [point[name] for point in run["curve"]]
    if left < times[0]:
        return None, False
    if left > times[-1]:
        return values[-1], True
    if name == "perplexity":
        values = np.log(values)
    value = float(np.interp(math.log(left), np.log(times), values))
    return math.exp(value) if name == "perplexity" else value, False
