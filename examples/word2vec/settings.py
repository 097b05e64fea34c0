"""What a training run consists of: fields that are flags of train.py."""

import dataclasses

from examples.common.settings import setting
from examples.corpora import corpus

ARCHITECTURES = ("skip_gram", "cbow")
OPTIMIZERS = ("sgd", "adagrad", "rowwise_adagrad")

# The rates of word2vec.c.
_SGD_RATES = {"skip_gram": 0.025, "cbow": 0.05}
_ADAGRAD_RATE = 0.3
# SGD adds up the steps of a batch, many of which meet near the root: it
# diverges with 1,024 examples. Larger batches take less time per example.
_SGD_BATCH_SIZE = 256
_ADAGRAD_BATCH_SIZE = 4096


@dataclasses.dataclass(frozen=True)
class Settings(corpus.Options):
    """Everything that changes what is learned."""

    min_count: int = setting(
        5, "Words that the text has fewer times are left out.", least=1
    )
    sentences: str = setting(
        "line",
        "What ends a sentence, past which no window reaches: a line break, as "
        "in word2vec, or only the end of a document, for text with broken "
        "lines.",
        choices=("line", "document"),
    )
    architecture: str = setting(
        "skip_gram",
        "skip_gram: each word of a window predicts the word in the middle. "
        "cbow: their mean does.",
        choices=ARCHITECTURES,
    )
    width: int = setting(100, "Numbers in a vector.", least=1)
    window: int = setting(
        5,
        "Words on either side of the middle, at most: each window has a random "
        "size up to this.",
        least=1,
    )
    sample: float = setting(
        1e-3,
        "Share of the text from which on the occurrences of a word are left "
        "out at random; 0: none.",
        least=0,
    )
    branching: int = setting(
        2, "Children of a node of the Huffman tree; 2 in word2vec.", least=2
    )
    optimizer: str = setting(
        "rowwise_adagrad",
        "An optimizer of tf_hsm.optimizers; word2vec has sgd.",
        choices=OPTIMIZERS,
    )
    learning_rate: float | None = setting(
        None,
        "At the start; it falls linearly to a ten-thousandth. By default 0.3, "
        "or with --optimizer=sgd the rates of word2vec: 0.025 for skip_gram, "
        "0.05 for cbow.",
        above=0,
    )
    batch_size: int | None = setting(
        None,
        "Predictions in one step, whose changes are added up. By default 4096, "
        "or 256 with --optimizer=sgd, which diverges with more.",
        least=1,
    )
    epochs: int = setting(5, "Passes over the text.", least=1)
    seed: int = setting(1, "Seed of all random numbers.", least=0)

    def __post_init__(self):
        """Fills in what is None; raises `ValueError` that names a bad flag."""
        super().__post_init__()
        is_sgd = self.optimizer == "sgd"
        rate = _SGD_RATES[self.architecture] if is_sgd else _ADAGRAD_RATE
        size = _SGD_BATCH_SIZE if is_sgd else _ADAGRAD_BATCH_SIZE
        for name, value in ("learning_rate", rate), ("batch_size", size):
            if getattr(self, name) is None:
                object.__setattr__(self, name, value)
