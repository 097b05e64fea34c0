"""Word2Vec of gensim with a hierarchical softmax, in a process of its own."""

import time

import gensim
from gensim.models import word2vec


class Implementation:
    """Epochs of `Word2Vec` with sg=1, hs=1, negative=0 and window 1.

    The corpus is read from its file, which gensim does in C without holding
    Python's lock. The spec has "width", "threads", "text", the path of the
    corpus, and "line", its words per line.
    """

    def __init__(self, spec):
        """Counts the words and makes the Huffman tree."""
        if word2vec.FAST_VERSION < 0:
            raise RuntimeError("gensim has no compiled kernels here")
        self._spec = spec
        self._model = word2vec.Word2Vec(
            vector_size=spec["width"],
            sg=1,
            hs=1,
            negative=0,
            window=1,
            sample=0,
            min_count=1,
            workers=spec["threads"],
            seed=1,
        )
        self._model.build_vocab(corpus_file=spec["text"])
        self.facts = {
            "version": gensim.__version__,
            "parameters": self._model.syn1.size + self._model.wv.vectors.size,
        }

    def run(self, phase, turn):
        """Times one epoch, including the reading of the file."""
        del phase, turn  # Every epoch is the same.
        start = time.perf_counter()
        num_words, _ = self._model.train(
            corpus_file=self._spec["text"],
            total_examples=self._model.corpus_count,
            total_words=self._model.corpus_total_words,
            epochs=1,
        )
        seconds = time.perf_counter() - start
        line = self._spec["line"]
        return {"seconds": seconds, "pairs": num_words // line * 2 * (line - 1)}
