"""What a training run consists of: fields that are flags of train.py.

Nothing here needs TensorFlow: the commands read their flags before they load
it.
"""

import dataclasses

from examples.common.settings import as_flag, setting
from examples.corpora import corpus

FOLDER = "lm_model"  # where the commands write and look by default
TOP_P = 0.9  # of generated text

HEADS = ("hierarchical", "adaptive", "full", "sampled")
TREES = ("data", "two_level", "balanced", "huffman", "flat")


@dataclasses.dataclass(frozen=True)
class Settings(corpus.Options):
    """Everything that changes what is learned."""

    head: str = setting(
        "hierarchical",
        "hierarchical: tf_hsm.layers.HierarchicalSoftmax. adaptive: "
        "tf_hsm.layers.AdaptiveSoftmax. full: one softmax over all classes in "
        "stock TensorFlow; exact and slow. sampled: "
        "tf_hsm.layers.SampledSoftmax, which trains on --num_sampled classes "
        "and evaluates with all.",
        choices=HEADS,
    )
    tree: str = setting(
        "data",
        "Tree of the hierarchical head. data: words that follow the same words "
        "share groups. two_level: about sqrt(N) groups of sqrt(N) classes that "
        "are about as frequent. balanced and huffman: groups of --branching "
        "classes, in order of frequency, or with short paths for the frequent "
        "ones. flat: one group, which is a full softmax.",
        choices=TREES,
    )
    branching: int = setting(
        256, "Size of a group in --tree=balanced and huffman.", least=2
    )
    tied: bool = setting(
        False, "Whether the rows of --tree=flat are the embedding too."
    )
    num_sampled: int = setting(
        1024, "Classes drawn for each step with --head=sampled.", least=1
    )
    body: str = setting(
        "recurrent",
        "recurrent: layers of --cell. transformer: causal blocks, which see "
        "the window of --steps tokens and nothing before it.",
        choices=("recurrent", "transformer"),
    )
    cell: str = setting(
        "lstm", "Kind of the recurrent layers.", choices=("rnn", "lstm", "gru")
    )
    attention_heads: int = setting(
        4, "Heads of each block of --body=transformer.", least=1
    )
    units: tuple[int, ...] = setting(
        (128,), "Width of each layer or block, as 512,256.", least=1
    )
    dropout: float = setting(
        0.1,
        "Share of a layer's inputs set to zero in training.",
        least=0,
        below=1,
    )
    batch_size: int = setting(
        128, "Parallel streams into which the text is cut.", least=1
    )
    steps: int = setting(
        32,
        "Tokens of a stream in one training step. The recurrent state lasts to "
        "the next step, the gradient does not.",
        least=1,
    )
    epochs: int = setting(3, "Passes over the text.", least=1)
    learning_rate: float = setting(
        0.006,
        "Rate of lazy Adam at the start. It falls along a cosine to a "
        "twentieth.",
        above=0,
    )
    seed: int = setting(1, "Seed of all random numbers.", least=0)

    def __post_init__(self):
        """Raises `ValueError` that names the first bad flag."""
        super().__post_init__()
        for is_wrong, message in self._contradictions():
            if is_wrong:
                raise ValueError(message)

    def _contradictions(self):
        """Yields whether flags contradict each other, and the message."""
        yield not self.units, "--units=: must have a number."
        is_transformer = self.body == "transformer"
        yield (
            is_transformer and len(set(self.units)) > 1,
            f"--units={as_flag(self.units)}: all blocks of --body=transformer "
            "have one width.",
        )
        yield (
            is_transformer and self.units[0] % self.attention_heads,
            f"--attention_heads={self.attention_heads}: must divide "
            f"--units={self.units[0]}.",
        )
        yield (
            self.tied and (self.head, self.tree) != ("hierarchical", "flat"),
            "--tied: only the rows of --head=hierarchical --tree=flat can be "
            "the embedding too.",
        )
