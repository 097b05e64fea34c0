"""What a training run consists of, and the checks of it.

Nothing here needs TensorFlow: the commands read their flags before they load
it.
"""

import dataclasses

from examples.common import settings
from examples.corpora import corpus
from examples.language_model import checks

FOLDER = "lm_model"  # where the commands write and look if not told
TOP_P = 0.9  # of generated text

HEADS = ("hierarchical", "adaptive", "full", "sampled")
TREES = (
    "two_level",
    "two_level_shuffled",
    "data",
    "balanced",
    "binary",
    "huffman",
    "flat",
)
TAILS = ("flat", "two_level")
BODIES = ("recurrent", "transformer")
CELLS = ("rnn", "lstm", "gru")
DECAYS = ("cosine", "none", "halve", "plateau")
PLATEAU = 0.01  # the share by which perplexity must fall
LEARNING_RATES = {  # by default, of each optimizer
    "lazy_adam": 0.006,
    "adagrad": 0.1,
    "rowwise_adagrad": 0.1,
    "sgd": 10.0,
}


@dataclasses.dataclass(frozen=True)
class Settings(corpus.Options):
    """Everything that changes what is learned; one flag of train.py each.

    Attributes:
        units: the width of each layer, from the first on. May be given as a
            number or a text; a single one counts for all of `layers`.
        learning_rate: None: that of the optimizer in `LEARNING_RATES`.
        cutoffs: of the adaptive head, given as `units`; none is a full softmax.
            None: chosen by their cost.
        embedding: width; None: what stands after the embedding decides.
        projection: width; None: there is none.
        clipnorm: 0: gradients are not clipped.
    """

    head: str = "hierarchical"
    tree: str = "data"
    branching: int = 256
    tail: str = "flat"
    cutoffs: str | tuple[int, ...] | None = None
    tied: bool = False
    frequency_biases: bool = True
    num_sampled: int = 1024
    in_place: bool = False
    body: str = "recurrent"
    cell: str = "lstm"
    stateful: bool = True
    attention_heads: int = 4
    layers: dataclasses.InitVar[int | None] = None
    units: int | str | tuple[int, ...] = 128
    embedding: int | None = None
    projection: int | None = None
    dropout: float = 0.1
    l2: float = 0.0
    batch_size: int = 128
    steps: int = 32
    epochs: int = 3
    optimizer: str = "lazy_adam"
    learning_rate: float | None = None
    initial_accumulator: float = 1e-6
    clipnorm: float = 0.0
    decay: str = "cosine"
    decay_from: int = 1
    seed: int = 1

    def __post_init__(self, layers):
        """Raises `ValueError` that names the first bad flag."""
        super().__post_init__()
        units = checks.numbers("units", self.units)
        self._set("units", checks.widths(units, layers))
        if self.cutoffs is not None:
            self._set("cutoffs", checks.numbers("cutoffs", self.cutoffs))
        choices = {
            "head": HEADS,
            "tree": TREES,
            "tail": TAILS,
            "body": BODIES,
            "optimizer": LEARNING_RATES,
            "decay": DECAYS,
        }
        settings.check_choices(self, choices)
        least = dict.fromkeys(
            (
                *("attention_heads", "embedding", "projection", "decay_from"),
                *("batch_size", "steps", "epochs", "num_sampled"),
            ),
            1,
        )
        least |= {"branching": 2}
        least |= dict.fromkeys(("dropout", "l2", "clipnorm", "seed"), 0)
        settings.check_least(self, least)
        if self.dropout >= 1:
            raise ValueError(f"--dropout={self.dropout}: must be below 1.")
        if self.learning_rate is None:
            self._set("learning_rate", LEARNING_RATES[self.optimizer])
        for name in ("learning_rate", "initial_accumulator"):
            if not getattr(self, name) > 0:
                raise ValueError(
                    f"--{name}={getattr(self, name)}: must be above 0."
                )
        if self.cell not in CELLS and ":" not in self.cell:
            raise ValueError(
                f"--cell={self.cell}: must be one of {', '.join(CELLS)}, or a "
                "Keras cell of your own as module:Class or path/file.py:Class."
            )
        checks.check_together(self)

    @property
    def head_width(self):
        """That of the head's inputs."""
        return self.projection or self.units[-1]

    @property
    def embedding_width(self):
        """That of the vectors of tokens."""
        default = self.head_width if self.tied else self.units[0]
        return self.embedding or default

    def _set(self, name, value):
        object.__setattr__(self, name, value)
