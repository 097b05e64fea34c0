"""Fewer cases than a product of parameters, and each pair of values in one."""

import itertools


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
    indices = [range(len(values)) for values in parameters]
    size = min(2, len(parameters))
    product = [
        (case, set(itertools.combinations(enumerate(case), size)))
        for case in itertools.product(*indices)
    ]
    chosen, covered = [], set()
    while True:
        case, pairs = max(product, key=lambda entry: len(entry[1] - covered))
        if chosen and pairs <= covered:
            break
        chosen.append(
            tuple(values[i] for values, i in zip(parameters, case, strict=True))
        )
        covered |= pairs
    return chosen
