"""Paths of codes for tries."""

import numpy as np


def random_paths(seed, num_items=60, num_codes=5, depth=4):
    """Paths of several lengths, none the beginning of another, in any order."""
    rng = np.random.default_rng(seed)
    paths = []
    while len(paths) < num_items:
        length = rng.integers(1 + depth // 2, depth + 1)
        path = tuple(rng.integers(num_codes, size=length).tolist())
        shortest = [p[: len(path)] for p in paths]
        if path not in shortest and not any(path[: len(p)] == p for p in paths):
            paths.append(path)
    return paths


def padded(paths, dtype=np.int64):
    """Lists of numbers as the rows of an array, with -1 at the ends."""
    codes = np.full([len(paths), max(map(len, paths))], -1, dtype)
    for row, path in zip(codes, paths, strict=True):
        row[: len(path)] = path
    return codes
