"""Task: the hypernym of a noun of WordNet, by the words of its gloss."""

import collections
import re

import numpy as np
from examples.wordnet import nouns

from benchmarks.fit import packages

_LENGTH = 16  # words of a gloss
_HELD_OUT = 0.05
_MIN_COUNT = 2


def hypernyms(folder):
    """The synsets that have a hypernym; class c is the c-th hypernym."""
    pattern = nouns.PATH.removeprefix("/")
    (path,) = packages.files("wordnet-base", pattern, folder)
    synsets = nouns.read(path)
    described = [i for i, synset in enumerate(synsets) if synset.hypernyms]
    above = np.array([(*synset.hypernyms, -1)[0] for synset in synsets])
    is_held_out = np.random.default_rng(0).random(len(described)) < _HELD_OUT
    training = np.array(described)[~is_held_out]
    held_out = np.array(described)[is_held_out]
    classes = np.unique(above[training])
    held_out = held_out[np.isin(above[held_out], classes)]

    texts = [
        re.findall(r"[a-z0-9]+", synset.definition.lower())
        for synset in synsets
    ]
    counts = collections.Counter(w for i in training for w in texts[i])
    words = [w for w, count in counts.most_common() if count >= _MIN_COUNT]
    ids = {word: i for i, word in enumerate(words)}

    def examples(chosen):
        contexts = bags([texts[i] for i in chosen], ids, len(words))
        return contexts, np.searchsorted(classes, above[chosen])

    parents, node_classes = taxonomy(above, classes)
    return {
        "training": examples(training),
        "held_out": examples(held_out),
        "num_classes": classes.size,
        "contexts_are_classes": False,
        "is_bag": True,
        "parents": parents,
        "node_classes": node_classes,
    }


def bags(texts, ids, unknown):
    """Returns `[n, 16]`, the first known words of texts; -1: none.

    A text without a known word is one unknown word.
    """
    result = np.full((len(texts), _LENGTH), -1, np.int32)
    for row, words in zip(result, texts, strict=True):
        known = [ids[w] for w in words if w in ids][:_LENGTH] or [unknown]
        row[: len(known)] = known
    return result


def taxonomy(above, classes):
    """Returns the nodes of the classes' tree: parents, and classes or -1.

    A class with nodes below it gets a leaf of its own among them.

    Args:
      above: the parent of each synset, -1 for a root.
      classes: the synset of each class.
    """
    kept = set()
    for node in classes:
        while node >= 0 and node not in kept:
            kept.add(int(node))
            node = above[node]
    kept = np.array(sorted(kept))
    parents = np.where(above[kept] < 0, -1, np.searchsorted(kept, above[kept]))
    is_inner = np.zeros(kept.size, bool)
    is_inner[parents[parents >= 0]] = True
    nodes = np.searchsorted(kept, classes)
    node_classes = np.full(kept.size, -1)
    numbers = np.arange(classes.size)
    inner = is_inner[nodes]
    node_classes[nodes[~inner]] = numbers[~inner]
    parents = np.append(parents, nodes[inner])
    return parents, np.append(node_classes, numbers[inner])
