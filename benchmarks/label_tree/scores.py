"""Measures of the labels found, as in the tables of extreme classification."""

import numpy as np

_A, _B = 0.55, 1.5  # of propensities, in the paper of Jain et al. (2016)
KS = (1, 3, 5)


def measures(labels, found, counts, examples):
    """Returns P@1, P@3, P@5, nDCG@5, PSP@1, PSP@3 and PSP@5 in percent.

    Args:
      labels: `[n, M]`, the labels of test examples; -1 for none. Each example
        has one label at least.
      found: `[n, 5]`, different labels for each example, best first; -1 where
        fewer are found.
      counts: `[N]`, how many training examples have each label.
      examples: how many training examples exist.
    """
    is_label = labels >= 0
    hits = (found[:, :, np.newaxis] == labels[:, np.newaxis]).any(2)
    hits &= found >= 0
    result = {f"P@{k}": 100 * hits[:, :k].mean() for k in KS}
    discounts = 1 / np.log2(np.arange(2, 2 + found.shape[1]))
    best = np.cumsum(discounts)[np.minimum(is_label.sum(1), found.shape[1]) - 1]
    result["nDCG@5"] = 100 * np.mean(hits @ discounts / best)
    scale = (np.log(examples) - 1) * (_B + 1) ** _A
    gains = 1 + scale * (counts + _B) ** -_A
    found_gains = np.where(hits, gains[found], 0)
    label_gains = -np.sort(-np.where(is_label, gains[labels], 0), axis=1)
    for k in KS:
        reached = found_gains[:, :k].sum()
        result[f"PSP@{k}"] = 100 * reached / label_gains[:, :k].sum()
    return {name: float(value) for name, value in result.items()}
