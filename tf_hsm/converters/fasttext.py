"""Models of fastText with a hierarchical softmax."""

import dataclasses
import os

import numpy as np

from tf_hsm.converters import _fasttext_file, _fasttext_inputs
from tf_hsm.converters._converted_model import ConvertedModel, to_tree


@dataclasses.dataclass(frozen=True, eq=False)
class FastTextModel(ConvertedModel):
    """A `ConvertedModel` that can also make the input of a line of text.

    Attributes:
      line_vector: for a supervised model, a function from one line of text to
        the vector `[D]` that fastText makes of it; else None.
    """

    line_vector: _fasttext_inputs.LineVectors | None = None


def from_fasttext(path, *, pinned=True) -> FastTextModel:
    """Converts a .bin file that fastText wrote with the loss hs.

    The classes are the labels of a supervised model, and the words of a
    skip-gram or CBOW model, in the order of the file. `inputs` are the word
    vectors of fastText: with subwords, means over them. A skip-gram model takes
    one of them as input, a supervised model takes `line_vector(line)`.

    Losses are exact. Predictions of fastText are not: it adds 1e-5 to the
    probability at each inner node, so that they sum to more than 1, and leaves
    out labels below about 1e-5.

    Args:
      path: the file; fastText itself does not have to be installed.
      pinned: whether the tree is pinned, as in fastText; see `tf_hsm.Tree.pin`.

    Returns:
      A `FastTextModel`. Names that are not UTF-8 are decoded with the error
      handler "surrogateescape".

    Raises:
      TypeError: `path` is no path, such as a loaded model.
      OSError: the file cannot be read.
      ValueError: it was trained with another loss, is quantized (.ftz), is of
        another format or another version of it than 11 and 12, is damaged or
        cut short; names the field, its value and the legal range.
    """
    if not isinstance(path, str | bytes | os.PathLike):
        raise TypeError(
            "path must be the name of a file that model.save_model(path) of "
            f"fastText wrote, but is {type(path).__name__}"
        )
    contents = _fasttext_file.read(path)
    supervised = contents.settings.supervised
    outputs = contents.labels if supervised else contents.words
    children = _merge(outputs.counts)
    tree, weights = to_tree(
        children, len(children) - 1, contents.outputs, side=1, pinned=pinned
    )
    return FastTextModel(
        tree,
        weights,
        _decode(outputs.texts),
        _fasttext_inputs.word_vectors(contents),
        _decode(contents.words.texts),
        line_vector=(
            _fasttext_inputs.LineVectors(contents) if supervised else None
        ),
    )


def _merge(counts):
    """Makes the Huffman tree of fastText, which does not store it.

    Two queues, as in `Tree.huffman`, but with other rules for equal counts: a
    merged node goes before a leaf, and a leaf before those with smaller
    numbers. The queue of leaves begins with the last one; fastText has sorted
    them by count, but the tree is what these rules make of any order.

    Returns the `children` of `to_tree`; the last inner node is the root.
    """
    num_classes = len(counts)
    counts = list(counts)
    leaf, node = num_classes - 1, num_classes
    children = np.empty([num_classes - 1, 2], np.int64)
    for below in children:
        total = 0
        for side in (0, 1):
            if leaf >= 0 and (
                node == len(counts) or counts[leaf] < counts[node]
            ):
                child, leaf = leaf, leaf - 1
            else:
                child, node = node, node + 1
            below[side] = child
            total += counts[child]
        counts.append(total)
    return children


def _decode(texts):
    return [text.decode("utf-8", "surrogateescape") for text in texts]
