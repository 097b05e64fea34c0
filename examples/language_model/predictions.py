"""A table of next-token predictions that a person can judge."""

import numpy as np

from examples.language_model import model as model_lib

_CONTEXT = 44
_TOP = 5


def table(model, words, tokens, labels, num_rows=8):
    """Returns the model's best guesses at places of the held-out text.

    Each row is from another stream of the batch, at its last position whose
    next token is a word; half of the streams or more must have one.

    Args:
        model: a trained model; its recurrent states change.
        words: the class names.
        tokens: `[B, T]`, the first batch of the text.
        labels: `[B, T]`, the tokens that follow.
        num_rows: how many places; fewer if the batch has fewer streams.
    """
    model_lib.reset_states(model)
    hidden = np.array(model_lib.body(model)(tokens))
    is_word = np.array([word.isidentifier() for word in words])[labels]
    streams = np.flatnonzero(is_word.any(axis=1))
    chosen = np.linspace(0, len(streams) - 1, min(num_rows, len(streams)))
    streams = streams[chosen.astype(int)]
    steps = labels.shape[1] - 1 - is_word[streams, ::-1].argmax(axis=1)
    head = model.get_layer("head")
    inputs = hidden[streams, steps]
    log_probs = np.array(head.log_probs(inputs))
    best = head.top_k(inputs, min(_TOP, len(words)))
    lines = []
    for i, t, row, top in zip(
        streams, steps, log_probs, np.array(best.classes), strict=True
    ):
        context = " ".join(visible(words[c]) for c in tokens[i, : t + 1])
        true = labels[i, t]
        rank = int((row > row[true]).sum()) + 1
        guesses = "  ".join(
            f"{visible(words[c])} {np.exp(row[c]):.0%}" for c in top
        )
        lines.append(
            f"  ...{context[-_CONTEXT:]:>{_CONTEXT}} | {words[true]}\n"
            f"      p = {np.exp(row[true]):.3g}, rank {rank:,}; "
            f"top {_TOP}: {guesses}"
        )
    return "\n".join(lines)


def visible(word):
    r"""A word; or a line break and its indentation, as in \n+4."""
    if not word.startswith("\n"):
        return word
    return f"\\n+{len(word.expandtabs()) - 1}"
