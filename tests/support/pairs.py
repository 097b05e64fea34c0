"""Fewer cases than a product of parameters, and each pair of values in one."""

import itertools

import numpy as np


def all_pairs(*parameters):
    """Cases in which any two values of two parameters meet.

    Most errors that need several parameters need two (Kuhn, Wallace and Gallo,
    "Software fault interactions and implications for software testing", 2004).
    Each next case is the first of those of the product that have most pairs
    that no case before it has.

    Args:
        *parameters: for each, the list of its values.

    Returns:
        A list of tuples with a value of each parameter; for two of them,
        the product of their values.
    """
    sizes = [len(values) for values in parameters]
    pairs = list(itertools.combinations(range(len(sizes)), min(2, len(sizes))))
    # How many pairs of each case no chosen case has.
    missing = np.full(sizes, len(pairs), np.int32)
    chosen, covered = [], set()
    while missing.any():
        case = np.unravel_index(missing.argmax(), sizes)
        for pair in pairs:
            at = tuple(
                case[i] if i in pair else slice(None) for i in range(len(sizes))
            )
            if (key := (pair, *(case[i] for i in pair))) not in covered:
                covered.add(key)
                missing[at] -= 1
        chosen.append(
            tuple(values[i] for values, i in zip(parameters, case, strict=True))
        )
    return chosen
