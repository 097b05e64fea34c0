"""The nodes of a trie, from the codes of its items; NumPy alone."""

from typing import NamedTuple

import numpy as np

from tf_hsm import _checks

_MAX = np.iinfo(np.int32).max


class TrieArrays(NamedTuple):
    """A trie whose nodes are numbered level by level; node 0 is the root.

    Siblings have neighbouring numbers and ascending codes. Items are ranked by
    their codes, so that the items below a node are an interval of ranks.
    """

    begins: np.ndarray  # [V + 1], the first child of each node, and V
    codes: np.ndarray  # [V], the last code of each node; -1 for the root
    spans: np.ndarray  # [V, 2], the first rank at or below, and one past
    items: np.ndarray  # [N], the item of each rank


def check_codes(codes):
    """Returns codes `[N, L]` of a user, and the length of each path."""
    codes = np.asarray(codes)
    if codes.ndim != 2 or codes.dtype.kind not in "iu" or not codes.size:
        raise ValueError(
            "codes must be integers [items, levels], at least one, but are "
            f"{codes.dtype} of shape {list(codes.shape)}"
        )
    _checks.refuse_first(
        (codes < -1).any(1) | (codes >= _MAX).any(1),
        lambda i: (
            f"the codes of item {i} are {codes[i].tolist()}; a code must be "
            f"below {_MAX}, and at least 0, or -1 after the end of a path"
        ),
    )
    is_code = codes >= 0
    lengths = is_code.sum(1)
    _checks.refuse_first(
        ~is_code[:, 0] | (is_code[:, 1:] > is_code[:, :-1]).any(1),
        lambda i: (
            f"the codes of item {i} are {codes[i].tolist()}; a path has at "
            "least one code, and -1 may only stand after its end"
        ),
    )
    return codes, lengths


def make(codes, lengths):
    """Returns the `TrieArrays` of what `check_codes` returned.

    A ValueError if an item has the path of another, or its beginning.
    """
    # By the first code, then the second; the end of a path, -1, comes first.
    order = np.lexsort(codes.T[::-1])
    lengths, size = lengths[order], len(codes)
    # Whether an item begins a new node at this level, and the items that do.
    is_new = np.arange(size) == 0
    starts = np.zeros(1, np.int64)
    all_codes = [np.int32([-1])]
    all_spans, fanouts = [np.int32([[0, size]])], []
    for level, column in enumerate(codes.T):
        column = column[order]
        parents = is_new & (lengths >= level)
        is_new[1:] |= column[1:] != column[:-1]
        _check_paths(is_new, lengths, level, order)
        is_node = is_new & (lengths > level)
        places = np.flatnonzero(is_new)
        ends = np.append(places[1:], size)[is_node[places]]
        starts = np.flatnonzero(is_node)
        # The place of each parent among the nodes of the level above.
        above = np.cumsum(parents)[starts] - 1
        counts = np.bincount(above, minlength=np.count_nonzero(parents))
        fanouts.append(np.int32(counts))
        all_codes.append(np.int32(column[starts]))
        all_spans.append(np.stack([np.int32(starts), np.int32(ends)], 1))
    fanouts.append(np.zeros(starts.size, np.int32))
    num_nodes = 1 + sum(int(x.sum()) for x in fanouts)
    if num_nodes >= _MAX:
        raise ValueError(f"{num_nodes:,} nodes are too many; at most {_MAX:,}")
    begins = np.concatenate([np.int32([1]), *fanouts])
    return TrieArrays(
        np.cumsum(begins, out=begins),
        np.concatenate(all_codes),
        np.concatenate(all_spans),
        np.int32(order),
    )


def _check_paths(is_new, lengths, level, order):
    """Raises a ValueError if a path of `level + 1` codes does not end alone."""
    is_wrong = ~is_new[1:] & (lengths[:-1] == level + 1)

    def message(place):
        one, other = order[place], order[place + 1]
        if lengths[place + 1] == level + 1:
            return f"items {one} and {other} have the same codes"
        return f"the codes of item {one} begin the codes of item {other}"

    _checks.refuse_first(is_wrong, message)
