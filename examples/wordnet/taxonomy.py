"""The tree of the synsets, and how near two of them are in it.

A synset may have several hypernyms: WordNet is no tree. Each is put below its
first. A class is a leaf, but a synset that has hyponyms is a class too ("dog"
as much as "poodle"): it gets a leaf among its children, for itself.
"""

import numpy as np

import tf_hsm

ITSELF = "(itself)"


def build(synsets):
    """Returns the `tf_hsm.Tree` with names whose class c is `synsets[c]`.

    Where several synsets have no hypernym, they are below a root of their own.

    Raises:
        ValueError: a synset is its own ancestor.
    """
    num_synsets = len(synsets)
    parents = np.array([(*s.hypernyms, -1)[0] for s in synsets])
    names = [synset.words[0] for synset in synsets]
    is_inner = np.zeros(num_synsets, bool)
    is_inner[parents[parents >= 0]] = True
    inner = np.flatnonzero(is_inner)
    classes = np.arange(num_synsets)
    classes[inner] = -1
    parents = np.append(parents, inner)
    classes = np.append(classes, inner)
    names += [f"{names[i]} {ITSELF}" for i in inner]
    tops = np.flatnonzero(parents < 0)
    if tops.size > 1 or classes[tops] >= 0:
        parents[tops] = parents.size
        parents, classes = np.append(parents, -1), np.append(classes, -1)
        names.append("")
    return tf_hsm.Tree.from_parents(parents, classes=classes, names=names)


def paths(tree):
    """Returns `[N, L]`, the rows of the path of each class, then -1."""
    result = np.full((tree.num_classes, tree.depth), -1)
    for c in range(tree.num_classes):
        path = tree.path(c)
        result[c, : path.size] = path
    return result


def common_depths(class_paths, a, b):
    """Returns the depths of the lowest common ancestors of classes.

    The root has depth 0. For a class and itself it is the depth of its leaf.

    Args:
        class_paths: what `paths` returned.
        a: `[B]` classes.
        b: `[B]` classes.
    """
    same = (class_paths[a] == class_paths[b]) & (class_paths[a] >= 0)
    return np.logical_and.accumulate(same, axis=1).sum(axis=1)
