"""What a training run consists of, and the checks of it.

Nothing here needs TensorFlow: the commands read their flags before they load
it.
"""

import dataclasses

from examples.common import settings

FOLDER = "lm_model"  # where the commands write and look if not told
TOP_P = 0.9  # of generated text

HEADS = ("hierarchical", "adaptive", "full", "sampled")
TREES = (
    "two_level",
    "two_level_shuffled",
    "clustered",
    "balanced",
    "binary",
    "huffman",
    "flat",
)
TAILS = ("flat", "two_level")
CELLS = ("rnn", "lstm", "gru")


@dataclasses.dataclass(frozen=True)
class Settings:
    """Everything that changes what is learned; one flag of train.py each."""

    corpus: str = "stdlib"
    encoding: str = "utf-8"
    min_count: int = 2
    head: str = "hierarchical"
    tree: str = "huffman"
    branching: int = 256
    tail: str = "flat"
    frequency_biases: bool = True
    num_sampled: int = 1024
    cell: str = "lstm"
    layers: int = 1
    units: int = 128
    dropout: float = 0.1
    batch_size: int = 128
    steps: int = 32
    epochs: int = 3
    learning_rate: float = 0.006
    seed: int = 1

    def __post_init__(self):
        """Raises `ValueError` that names the first bad flag."""
        choices = {
            "head": HEADS,
            "tree": TREES,
            "tail": TAILS,
            "cell": CELLS,
        }
        settings.check_choices(self, choices)
        least = dict.fromkeys(
            ("layers", "units", "batch_size", "steps", "epochs", "num_sampled"),
            1,
        )
        least |= {"min_count": 2, "branching": 2, "dropout": 0, "seed": 0}
        settings.check_least(self, least)
        if self.dropout >= 1:
            raise ValueError(f"--dropout={self.dropout}: must be below 1.")
        if self.learning_rate <= 0:
            raise ValueError(
                f"--learning_rate={self.learning_rate}: must be above 0."
            )
        object.__setattr__(self, "encoding", settings.encoding(self.encoding))
