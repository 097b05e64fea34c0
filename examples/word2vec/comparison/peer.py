"""Trains gensim's word vectors, in a process of its own; no TensorFlow."""

import sys
import time

import numpy as np

from examples.word2vec.comparison import files

_RATES = {"skip_gram": 0.025, "cbow": 0.05}  # word2vec.c's
_CHUNK = 4096  # predictions whose losses are made at once


def main(spec):
    """Trains with `Word2Vec(hs=1, negative=0)`."""
    try:
        from gensim.models import word2vec
    except ModuleNotFoundError:
        sys.exit(f"{sys.executable} has no gensim: pip install gensim")
    settings = spec["settings"]
    text = str(files.lines(spec["folder"], spec["shuffled"]))
    model = word2vec.Word2Vec(
        vector_size=settings["width"],
        window=settings["window"],
        sample=settings["sample"],
        sg=int(settings["architecture"] == "skip_gram"),
        alpha=_RATES[settings["architecture"]],
        hs=1,
        negative=0,
        min_count=1,
        workers=spec["threads"],
        seed=settings["seed"],
    )
    model.build_vocab(corpus_file=text)
    corpus = (
        {"corpus_file": text, "total_words": model.corpus_total_words}
        if spec["threads"] == 1
        else {"corpus_iterable": word2vec.LineSentence(text)}
    )
    begin = time.monotonic()
    model.train(
        total_examples=model.corpus_count, epochs=settings["epochs"], **corpus
    )
    seconds = time.monotonic() - begin
    # Our number of a word is its name there.
    places = np.argsort(np.array(model.wv.index_to_key, int))
    vectors = model.wv.vectors[places]
    inputs, labels = files.read_held_out(spec["folder"], vectors)
    files.write_result(
        spec, seconds, losses(model, places[labels], inputs), vectors
    )


def losses(model, labels, inputs):
    """The exact losses of gensim's model, which itself has only a table.

    -log p = sum over the path's nodes of log(1 + exp(s v . x)), where s is -1
    at a code of 0 and 1 at a code of 1.

    Args:
        model: a `Word2Vec`.
        labels: `[n]`, indices of its words.
        inputs: `[n, width]`.
    """
    names = model.wv.index_to_key
    points, codes = (
        [model.wv.get_vecattr(name, kind) for name in names]
        for kind in ("point", "code")
    )
    lengths = np.array([len(code) for code in codes])
    shape = len(names), lengths.max()
    is_node = np.arange(shape[1]) < lengths[:, np.newaxis]
    nodes, signs = np.zeros(shape, int), np.zeros(shape)
    nodes[is_node] = np.concatenate(
        [point[:n] for point, n in zip(points, lengths, strict=True)]
    )
    signs[is_node] = 2 * np.concatenate(codes).astype(float) - 1
    result = []
    for begin in range(0, len(labels), _CHUNK):
        chosen = labels[begin : begin + _CHUNK]
        logits = np.einsum(
            "nld,nd->nl",
            model.syn1[nodes[chosen]],
            inputs[begin : begin + _CHUNK],
            optimize=True,
        )
        terms = np.logaddexp(0, signs[chosen] * logits)
        result.append(np.sum(terms * is_node[chosen], axis=1))
    return np.concatenate(result)


if __name__ == "__main__":
    main(files.read_spec())
