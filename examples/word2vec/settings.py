"""What a training run consists of, and the checks of it; no TensorFlow."""

import dataclasses

from examples.common import settings
from examples.corpora import corpus

FOLDER = "word2vec_model"  # where the command writes if not told
ARCHITECTURES = ("skip_gram", "cbow")
OPTIMIZERS = ("sgd", "adagrad", "rowwise_adagrad")
SENTENCES = ("line", "document")

# Those of word2vec.c.
_SGD_RATES = {"skip_gram": 0.025, "cbow": 0.05}
_ADAGRAD_RATE = 0.3
# Plain SGD adds up the steps of a batch, and nothing divides them where many
# meet, near the root: with 1,024 examples it diverges. Larger batches take less
# time per example.
_SGD_BATCH_SIZE = 256
_ADAGRAD_BATCH_SIZE = 4096
# fastText's.
_SUBWORDS = {"min_n": 3, "max_n": 6, "buckets": 2_000_000}


@dataclasses.dataclass(frozen=True)
class Settings(corpus.Options):
    """Everything that changes what is learned; one flag of train.py each."""

    min_count: int = 5
    sentences: str = "line"
    architecture: str = "skip_gram"
    width: int = 100
    window: int = 5
    sample: float = 1e-3
    branching: int = 2
    optimizer: str = "rowwise_adagrad"
    learning_rate: float = 0
    batch_size: int = 0
    epochs: int = 5
    seed: int = 1
    min_n: int = 0
    max_n: int = 0
    buckets: int = 0

    def __post_init__(self):
        """Fills in what is 0; raises `ValueError` that names a bad flag."""
        super().__post_init__()
        settings.check_choices(
            self,
            {
                "sentences": SENTENCES,
                "architecture": ARCHITECTURES,
                "optimizer": OPTIMIZERS,
            },
        )
        settings.check_least(
            self,
            dict.fromkeys(("width", "window", "epochs"), 1)
            | dict.fromkeys(("min_count", "branching"), 2)
            | dict.fromkeys(
                ("sample", "learning_rate", "batch_size", "seed"), 0
            )
            | dict.fromkeys(_SUBWORDS, 0),
        )
        filled = self._subwords()
        if not self.learning_rate:
            filled["learning_rate"] = (
                _SGD_RATES[self.architecture]
                if self.optimizer == "sgd"
                else _ADAGRAD_RATE
            )
        if not self.batch_size:
            filled["batch_size"] = (
                _SGD_BATCH_SIZE
                if self.optimizer == "sgd"
                else _ADAGRAD_BATCH_SIZE
            )
        for name, value in filled.items():
            object.__setattr__(self, name, value)

    def _subwords(self):
        """Checks the flags of n-grams; returns what is filled in of them."""
        if not self.max_n:
            for name in _SUBWORDS:
                if value := getattr(self, name):
                    raise ValueError(
                        f"--{name}={value}: needs --max_n too, such as "
                        f"--max_n={_SUBWORDS['max_n']}."
                    )
            return {}
        min_n = self.min_n or min(_SUBWORDS["min_n"], self.max_n)
        if min_n > self.max_n:
            raise ValueError(
                f"--min_n={min_n}: must be at most --max_n, {self.max_n}."
            )
        return {
            "min_n": min_n,
            "buckets": self.buckets or _SUBWORDS["buckets"],
        }
