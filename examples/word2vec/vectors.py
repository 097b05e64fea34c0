"""The file of word vectors that word2vec writes, and near words."""

import numpy as np

from examples.common import files

_NUM_EXAMPLES = 8


def write(path, words, vectors):
    """Writes vectors of words in the binary format of word2vec, atomically.

    The file begins with a line "N width". Then each word follows, in UTF-8,
    with a space, its numbers as float32, the lowest byte first, and a line
    break.

    Args:
        path: The path of the file.
        words: `[N]` strings without white space, most frequent first.
        vectors: `[N, width]` float32.
    """
    with files.atomic(path) as name, open(name, "wb") as file:
        file.write(b"%d %d\n" % vectors.shape)
        for word, vector in zip(words, vectors.astype("<f4"), strict=True):
            file.write(b"%s %s\n" % (word.encode(), vector.tobytes()))


def table(names, vectors, asked=(), count=8):
    """Returns the nearest words of some words, as text, with the cosines.

    Args:
        names: `[N]` strings, most frequent first.
        vectors: `[N, width]`, the vectors of these words.
        asked: The words whose neighbours are shown; some frequent ones by
            default.
        count: The number of neighbours.
    """
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    unit = vectors / np.where(lengths, lengths, 1)
    places = {name: i for i, name in enumerate(names)}
    asked = asked or _examples(names)
    width = max(map(len, asked), default=0)
    lines = []
    for name in asked:
        found = f"(not among these {len(names):,} words)"
        if name in places:
            cosines = unit @ unit[places[name]]
            cosines[places[name]] = -np.inf
            best = np.argsort(-cosines, kind="stable")
            best = best[: min(count, len(names) - 1)]
            found = "  ".join(f"{names[i]} {cosines[i]:.2f}" for i in best)
        lines.append(f"  {name:{width}}  {found}")
    return "\n".join(lines)


def _examples(names):
    """Some frequent words, from the 10th to the 1,000th; of letters, if any."""
    words = [n for n in names[:2000] if len(n) > 2 and n.isalpha()]
    names = words or names
    places = np.geomspace(10, 1000, _NUM_EXAMPLES).astype(int)
    return list(dict.fromkeys(names[i] for i in places if i < len(names)))
