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
        return self.nearest_to(self.unit[place], count, besides=place)

    def nearest_to(self, vector, count, besides=None):
        """The same for a vector `[width]`, of any length.

        Args:
            vector: that of no word, or of the one at the place `besides`.
            count: of words.
            besides: the place of a word that is left out, or None.
        """
        cosines = self.unit @ (vector / (np.linalg.norm(vector) or 1))
        if besides is not None:
            cosines[besides] = -np.inf
            count = min(count, len(cosines) - 1)
        best = np.argsort(-cosines, kind="stable")[:count]
        return [(self.names[i], float(cosines[i])) for i in best]

    def examples(self, count):
        """Some frequent words: of letters, from the 10th to the 1,000th."""
        names = [n for n in self.names[:2000] if len(n) > 2 and n.isalpha()]
        places = np.geomspace(10, 1000, count).astype(int)
        return list(dict.fromkeys(names[i] for i in places if i < len(names)))


def table(words, asked, count, ngrams=None):
    """The neighbours of words, as text; the cosine is beside each.

    Args:
        words: a `Words`.
        asked: names.
        count: of neighbours.
        ngrams: an `ngrams.Ngrams`, for names that are not in `words`.
    """
    lines = []
    width = max(map(len, asked), default=0)
    for name in asked:
        if name in words.index:
            found = _line(words.nearest(name, count))
        elif ngrams and (vector := ngrams.vector(name)) is not None:
            nearest = _line(words.nearest_to(vector, count))
            found = f"(by its n-grams)  {nearest}"
        else:
            found = f"(not among these {len(words.names):,} words)"
        lines.append(f"  {name:{width}}  {found}")
    return "\n".join(lines)


def _line(nearest):
    return "  ".join(f"{name} {cosine:.2f}" for name, cosine in nearest)
