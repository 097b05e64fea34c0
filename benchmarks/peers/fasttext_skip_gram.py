"""The hierarchical softmax of fastText, in a process of its own."""

import importlib.metadata
import os
import re
import tempfile

import fasttext

# Each of these distributions brings the module.
_DISTRIBUTIONS = {"fasttext", "fasttext-wheel"}


class Implementation:
    """Trainings of a skip-gram model with loss hs and ws 1, no subwords.

    fastText trains in one call, which first counts the words and makes the
    tree. The time is from the words per second that it prints last, whose clock
    starts after that. The end of a line is a word to fastText.

    The spec has "width", "threads", "text", the path of the corpus, "lines",
    "line", the words per line, and "num_classes".
    """

    def __init__(self, spec):
        """Trains nothing yet."""
        self._spec = spec
        self.facts = {
            "version": _version(),
            "parameters": 2 * (spec["num_classes"] + 1) * spec["width"],
        }

    def run(self, phase, turn):
        """Trains a new model for one epoch."""
        del phase, turn  # Every training is the same.
        spec = self._spec
        with tempfile.TemporaryFile("w+") as progress:
            stderr = os.dup(2)
            os.dup2(progress.fileno(), 2)
            try:
                self._train()
            finally:
                os.dup2(stderr, 2)
                os.close(stderr)
            progress.seek(0)
            text = progress.read()
        rate = int(re.findall(r"words/sec/thread:\s*(\d+)", text)[-1])
        words = spec["lines"] * (spec["line"] + 1)
        return {
            "seconds": words / (rate * spec["threads"]),
            "pairs": spec["lines"] * 2 * spec["line"],
        }

    def _train(self):
        fasttext.train_unsupervised(
            self._spec["text"],
            model="skipgram",
            loss="hs",
            dim=self._spec["width"],
            ws=1,
            minCount=1,
            minn=0,
            maxn=0,
            bucket=0,
            # Only words above this frequency would be dropped at times.
            t=1.0,
            epoch=1,
            lr=0.025,
            thread=self._spec["threads"],
            verbose=2,
        )


def _version():
    distributions = importlib.metadata.packages_distributions()["fasttext"]
    (name,) = _DISTRIBUTIONS.intersection(distributions)
    return importlib.metadata.version(name)
