"""Words that are near each other."""

import numpy as np


class Words:
    """Words with vectors of length 1, to compare by their cosine.

    Attributes:
        names: `[N]` strings, most frequent first.
        unit: `[N, width]` float32.
        index: a dict, names to places.
    """

    def __init__(self, names, vectors):
        """Scales the `vectors` `[N, width]` in place; zeros stay zeros."""
        lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
        vectors /= np.where(lengths, lengths, 1)
        self.names = tuple(names)
        self.unit = vectors
        self.index = {name: i for i, name in enumerate(self.names)}

    def nearest(self, name, count):
        """The `count` words with the largest cosines, and these.

        Raises:
            KeyError: there is no such word.
        """
        place = self.index[name]
        cosines = self.unit @ self.unit[place]
        cosines[place] = -np.inf
        count = min(count, len(cosines) - 1)
        best = np.argsort(-cosines, kind="stable")[:count]
        return [(self.names[i], float(cosines[i])) for i in best]

    def examples(self, count):
        """Some frequent words: of letters, from the 10th to the 1,000th."""
        names = [n for n in self.names[:2000] if len(n) > 2 and n.isalpha()]
        places = np.geomspace(10, 1000, count).astype(int)
        return list(dict.fromkeys(names[i] for i in places if i < len(names)))


def table(words, asked, count):
    """The neighbours of words, as text; the cosine is beside each.

    Args:
        words: a `Words`.
        asked: names.
        count: of neighbours.
    """
    lines = []
    width = max(map(len, asked), default=0)
    for name in asked:
        if name in words.index:
            found = "  ".join(
                f"{other} {cosine:.2f}"
                for other, cosine in words.nearest(name, count)
            )
        else:
            found = f"(not among these {len(words.names):,} words)"
        lines.append(f"  {name:{width}}  {found}")
    return "\n".join(lines)
