"""Labels above a threshold, and the threshold of the best F1."""

import numpy as np


def best_labels(model, inputs, k, threshold=None, batch_size=500):
    """Returns the probabilities and the labels of the k best, `[n, k]` each.

    Where fewer than k labels are as probable as the threshold, the last labels
    are -1, and their probabilities 0.
    """
    head = model.get_layer("head")
    k = min(k, head.num_classes)
    hidden = model.predict(inputs, batch_size, verbose=0)
    found = [
        head.top_k(hidden[i : i + batch_size], k, threshold=threshold)
        for i in range(0, len(hidden), batch_size)
    ]
    log_probs, labels = (np.concatenate(x) for x in zip(*found, strict=True))
    return np.exp(log_probs), labels


def best(model, inputs, labels, k=50, least=0.05):
    """Returns the probability from which on the labels found have the best F1.

    Args:
      model: from `make_model`.
      inputs: bags that the model has not been trained on.
      labels: `[n, M]`, their labels; -1 for none.
      k: how many labels an example gets at most.
      least: the least threshold.
    """
    probs, found = best_labels(model, inputs, k, least)
    probs, hits = probs[found >= 0], is_right(found, labels)[found >= 0]
    order = np.argsort(-probs)
    # F1 = 2 hits / (labels found + labels), for each number of labels found.
    num_found = 1 + np.arange(order.size)
    f1 = 2 * np.cumsum(hits[order]) / (num_found + (labels >= 0).sum())
    return float(probs[order[np.argmax(f1)]]) if order.size else least


def report(model, inputs, labels, threshold, k=50):
    """Returns a line about the labels that are as probable as a threshold."""
    found = best_labels(model, inputs, k, threshold)[1]
    hits = is_right(found, labels).sum()
    num_found, num_labels = ((x >= 0).sum() for x in (found, labels))
    return (
        f"From the probability {threshold:.2f} on: precision "
        f"{hits / max(num_found, 1):.1%}, recall {hits / num_labels:.1%}, "
        f"F1 {2 * hits / (num_found + num_labels):.1%}."
    )


def is_right(found, labels):
    """Returns which labels found `[n, k]` are among the labels `[n, M]`."""
    is_equal = found[:, :, np.newaxis] == labels[:, np.newaxis]
    return is_equal.any(2) & (found >= 0)
