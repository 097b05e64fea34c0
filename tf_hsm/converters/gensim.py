"""Models of gensim with a hierarchical softmax."""

import numpy as np

from tf_hsm.converters._converted_model import (
    ConvertedModel,
    check_finite,
    to_tree,
)


def from_gensim(model, *, pinned=True) -> ConvertedModel:
    """Converts a gensim model that was trained with `hs=1`.

    The class of a word is its index in `model.wv`, and `inputs` are the word
    vectors `model.wv.vectors`. A skip-gram model takes one of them as input, a
    CBOW model the mean (or the sum) of the vectors of the context. For
    `Doc2Vec` the vectors of the documents are in `model.dv.vectors`.

    Losses are exact. Those of `model.score` are not: gensim takes a logit below
    6 in magnitude from a table, up to 0.06 too low, and counts no others.

    Args:
      model: a `Word2Vec`, `FastText` or `Doc2Vec` of gensim 4.
      pinned: whether the tree is pinned, as in gensim; see `tf_hsm.Tree.pin`.

    Returns:
      A `ConvertedModel` with copies of the arrays.

    Raises:
      TypeError: `model` is something else, such as its word vectors alone.
      ValueError: it was not trained with `hs=1`, or its arrays do not fit one
        another; names the first word that is wrong.
    """
    words = getattr(model, "wv", None)
    if not hasattr(words, "get_vecattr"):
        raise TypeError(
            "model must be a Word2Vec, FastText or Doc2Vec of gensim 4, not "
            f"{type(model).__name__}"
        )
    if not getattr(model, "hs", 0) or getattr(model, "syn1", None) is None:
        raise ValueError(
            "model has no hierarchical softmax; it must be trained with hs=1"
        )
    names = list(words.index_to_key)
    inputs, vectors = np.array(words.vectors), np.asarray(model.syn1)
    _check_shapes(len(names), inputs, vectors)
    if len(names) == 1:
        children, root = np.empty([0, 2], np.int64), 0
    else:
        children, root = _children(names, *_paths(words, names))
    tree, weights = to_tree(children, root, vectors, side=0, pinned=pinned)
    return ConvertedModel(tree, weights, names, inputs, names)


def _check_shapes(num_words, inputs, vectors):
    if not num_words:
        raise ValueError("model.wv has no words; build the vocabulary first")
    if inputs.ndim != 2 or len(inputs) != num_words:
        raise ValueError(
            f"model.wv.vectors has the shape {list(inputs.shape)}; it must be "
            f"[{num_words}, D] for {num_words} words"
        )
    if vectors.shape != inputs.shape:
        raise ValueError(
            f"model.syn1 has the shape {list(vectors.shape)}; it must be that "
            f"of model.wv.vectors, {list(inputs.shape)}"
        )
    check_finite("model.wv.vectors", inputs)
    check_finite("model.syn1", vectors)


def _paths(words, names):
    """Reads the paths of all words, one after the other.

    Returns:
      The inner nodes from the root on, the side that is taken at each, and the
      end of each word's path among them; int64.
    """
    try:
        points = [np.asarray(words.get_vecattr(n, "point")) for n in names]
        codes = [np.asarray(words.get_vecattr(n, "code")) for n in names]
    except KeyError as error:
        raise ValueError(
            "model.wv has no codes; gensim makes them with the vocabulary "
            "of a model with hs=1"
        ) from error
    for name, point, code in zip(names, points, codes, strict=True):
        if point.ndim != 1 or not point.size or point.shape != code.shape:
            raise ValueError(
                f"word {name!r} has a point of shape {list(point.shape)} and "
                f"a code of shape {list(code.shape)}; both must be [length], "
                "with a length of at least 1"
            )
    ends = np.cumsum([point.size for point in points])
    return (
        _bounded("point", names, points, ends, len(names) - 2),
        _bounded("code", names, codes, ends, 1),
        ends,
    )


def _bounded(attribute, names, parts, ends, maximum):
    """Joins the parts; ValueError unless they are integers up to `maximum`."""
    values = np.concatenate(parts)
    if values.dtype.kind not in "iu":
        raise ValueError(
            f"the {attribute} of a word must hold integers, not {values.dtype}"
        )
    bad = (values < 0) | (values > maximum)
    if bad.any():
        position = np.argmax(bad)
        name = names[np.searchsorted(ends, position, side="right")]
        raise ValueError(
            f"the {attribute} of word {name!r} holds {values[position]}; it "
            f"must be 0 to {maximum}"
        )
    return values.astype(np.int64)


def _children(names, points, codes, ends):
    """Returns the `children` and the `root` of `to_tree`.

    Raises:
      ValueError: the paths do not belong to one tree.
    """
    num_words = len(names)
    below = np.empty_like(points)
    below[:-1] = points[1:] + num_words
    below[ends - 1] = np.arange(num_words)
    children = np.full([num_words - 1, 2], -1, np.int64)
    children[points, codes] = below
    root, starts = points[0], np.append(0, ends[:-1])
    bad = children[points, codes] != below
    bad[starts] |= points[starts] != root
    if bad.any():
        name = names[np.searchsorted(ends, np.argmax(bad), side="right")]
        raise ValueError(
            f"the path of word {name!r} contradicts that of another word"
        )
    # Paths that agree are a whole tree: k inner nodes have 2 k places below
    # them, which N leaves and at least k - 1 of the inner nodes take, so that
    # k is N - 1 and each of them stands in one place.
    return children, int(root)
