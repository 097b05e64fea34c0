"""What a training run consists of: fields that are flags of train.py.

Nothing here needs TensorFlow: the commands read their flags before they load
it.
"""

import dataclasses
import itertools

from examples.common.settings import as_flag, setting
from examples.corpora import corpus

FOLDER = "lm_model"  # where the commands write and look by default
TOP_P = 0.9  # of generated text

HEADS = ("hierarchical", "adaptive", "full", "sampled")
TREES = (
    *("two_level", "two_level_shuffled", "data", "balanced", "binary"),
    *("huffman", "flat"),
)
PLATEAU = 0.01  # the share by which perplexity must fall
LEARNING_RATES = {  # by default, of each optimizer
    "lazy_adam": 0.006,
    "adagrad": 0.1,
    "rowwise_adagrad": 0.1,
    "sgd": 10.0,
}


@dataclasses.dataclass(frozen=True)
class Settings(corpus.Options):
    """Everything that changes what is learned."""

    head: str = setting(
        "hierarchical",
        "hierarchical: tf_hsm.layers.HierarchicalSoftmax. adaptive: "
        "tf_hsm.layers.AdaptiveSoftmax. full: one softmax over all classes; "
        "exact and slow. sampled: tf_hsm.layers.SampledSoftmax, which trains "
        "on --num_sampled classes and evaluates with all.",
        choices=HEADS,
    )
    tree: str = setting(
        "data",
        "Tree of the hierarchical head. two_level: about sqrt(N) groups of "
        "sqrt(N) classes that are about as frequent; two_level_shuffled: any "
        "classes. data: words that follow the same words share groups. "
        "balanced and huffman: groups of --branching classes, in order of "
        "frequency, or with short paths for the frequent ones. binary: "
        "balanced with groups of 2. flat: one group, which is a full softmax.",
        choices=TREES,
    )
    branching: int = setting(
        256, "Size of a group in --tree=balanced and huffman.", least=2
    )
    tail: str = setting(
        "flat",
        "Each tail of --head=adaptive: one group, or a two_level tree.",
        choices=("flat", "two_level"),
    )
    cutoffs: tuple[int, ...] | None = setting(
        None,
        "First class of each tail of --head=adaptive, as 2000,10000; if empty, "
        "there is no tail, which is a full softmax. By default the cutoffs "
        "that cost least.",
        least=1,
    )
    tied: bool = setting(
        False,
        "Whether the rows of --head=adaptive, or of --tree=flat, are the "
        "embedding too.",
    )
    frequency_biases: bool = setting(
        True,
        "Whether the head's biases begin at the log-frequencies of the "
        "classes, instead of zero.",
    )
    num_sampled: int = setting(
        1024, "Classes drawn for each step with --head=sampled.", least=1
    )
    in_place: bool = setting(
        False,
        "Whether --head=hierarchical or adaptive updates its rows in place, by "
        "an optimizer of its own with the same rule and rate: no gradient of "
        "the rows is stored.",
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
    embedding: int | None = setting(
        None,
        "Width of the embedding; by default the width of the first layer.",
        least=1,
    )
    projection: int | None = setting(
        None,
        "Width of a linear layer without bias before the head; by default "
        "there is none.",
        least=1,
    )
    dropout: float = setting(
        0.1,
        "Share of a layer's inputs set to zero in training.",
        least=0,
        below=1,
    )
    l2: float = setting(
        0.0,
        "Weight of the sum of squares that is added to the loss: of all "
        "matrices but the embedding, and of the rows of the head that a step "
        "touches. Its gradient is 2 l2 w: half of what papers call weight "
        "decay.",
        least=0,
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
    optimizer: str = setting(
        "lazy_adam",
        "An optimizer of tf_hsm.optimizers, for the whole model.",
        choices=tuple(LEARNING_RATES),
    )
    learning_rate: float | None = setting(
        None,
        "The rate at the start; by default "
        f"{', '.join(f'{r:g} of {name}' for name, r in LEARNING_RATES.items())}"
        ".",
        above=0,
    )
    initial_accumulator: float = setting(
        1e-6,
        "Where the sums of squares of adagrad and rowwise_adagrad begin.",
        above=0,
    )
    clipnorm: float = setting(
        0.0, "Largest norm of all gradients together; 0: any.", least=0
    )
    decay: str = setting(
        "cosine",
        "How the rate falls. cosine: along a cosine to a twentieth. none: not "
        "at all. plateau: by half after each epoch whose held-out perplexity "
        f"is not {PLATEAU:.0%} below the perplexity of the epoch before.",
        choices=("cosine", "none", "plateau"),
    )
    seed: int = setting(1, "Seed of all random numbers.", least=0)

    def __post_init__(self):
        """Raises `ValueError` that names the first bad flag."""
        super().__post_init__()
        if self.learning_rate is None:
            rate = LEARNING_RATES[self.optimizer]
            object.__setattr__(self, "learning_rate", rate)
        for is_wrong, message in self._contradictions():
            if is_wrong:
                raise ValueError(message)

    @property
    def head_width(self):
        """The width of the head's inputs."""
        return self.projection or self.units[-1]

    @property
    def embedding_width(self):
        """The width of the vectors of tokens."""
        default = self.head_width if self.tied else self.units[0]
        return self.embedding or default

    def _contradictions(self):
        """Yields whether flags contradict each other, and the message."""
        yield not self.units, "--units=: must have a number."
        yield (
            any(a >= b for a, b in itertools.pairwise(self.cutoffs or ())),
            f"--cutoffs={as_flag(self.cutoffs)}: must ascend.",
        )
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
        is_flat = self.head == "hierarchical" and self.tree == "flat"
        yield (
            self.tied and self.head != "adaptive" and not is_flat,
            f"--tied: the rows of --head={self.head} are no input embedding; "
            "take --head=adaptive or --tree=flat.",
        )
        yield (
            self.tied and is_flat and (self.in_place or self.l2),
            "--tied: with --tree=flat, the rows have one gradient for both "
            "uses; leave out --in_place and --l2.",
        )
        yield (
            self.tied and self.embedding not in (None, self.head_width),
            f"--embedding={self.embedding}: with --tied it is as wide as the "
            f"head's inputs, {self.head_width}; leave it out.",
        )
        yield (
            self.in_place and self.head not in ("hierarchical", "adaptive"),
            f"--in_place: --head={self.head} has no update in place.",
        )
        yield (
            self.in_place and (self.clipnorm or self.l2),
            "--in_place: --clipnorm and --l2 need the gradient of all rows, "
            "which is never stored.",
        )
