"""The flags that say what is trained, and how."""

from examples.language_model import settings

_DEFAULT = settings.Settings


def define(flags):
    """Defines them on a `program.Flags`, with the defaults of `Settings`."""
    _define_head(flags)
    _define_body(flags)
    _define_training(flags)


def _define_head(flags):
    flags.DEFINE_enum(
        "head",
        _DEFAULT.head,
        settings.HEADS,
        "hierarchical: tf_hsm.layers.HierarchicalSoftmax. adaptive: "
        "tf_hsm.layers.AdaptiveSoftmax. full: one softmax over all classes; "
        "exact and slow. sampled: tf_hsm.layers.SampledSoftmax, which trains "
        "on --num_sampled classes and evaluates with all.",
    )
    flags.DEFINE_enum(
        "tree",
        _DEFAULT.tree,
        settings.TREES,
        "Tree of the hierarchical head. two_level: about sqrt(N) groups of "
        "sqrt(N) classes that are about as frequent; two_level_shuffled: any "
        "classes. data: words that follow the same words share groups. "
        "balanced and huffman: groups of --branching classes, in order of "
        "frequency, or with short paths for the frequent ones. binary: "
        "balanced with groups of 2. flat: one group, which is a full softmax.",
    )
    flags.DEFINE_integer(
        "branching",
        _DEFAULT.branching,
        "Size of a group in --tree=balanced and huffman.",
    )
    flags.DEFINE_bool(
        "in_place",
        _DEFAULT.in_place,
        "Whether --head=hierarchical or adaptive updates its rows in place, by "
        "an optimizer of its own with the same rule and rate: no gradient of "
        "them is stored.",
    )
    flags.DEFINE_list(
        "cutoffs",
        _DEFAULT.cutoffs,
        "First class of each tail of --head=adaptive, as 2000,10000; if empty, "
        "there is none, which is a full softmax. By default those that cost "
        "least are found.",
    )
    flags.DEFINE_enum(
        "tail",
        _DEFAULT.tail,
        settings.TAILS,
        "Each tail of --head=adaptive: one group, or a two_level tree.",
    )
    flags.DEFINE_bool(
        "tied",
        _DEFAULT.tied,
        "Whether the rows of --head=adaptive, or of --tree=flat, are the "
        "embedding too.",
    )
    flags.DEFINE_bool(
        "frequency_biases",
        _DEFAULT.frequency_biases,
        "Whether the head's biases begin at the log-frequencies of the "
        "classes, instead of zero.",
    )
    flags.DEFINE_integer(
        "num_sampled",
        _DEFAULT.num_sampled,
        "Classes drawn for each step with --head=sampled.",
    )


def _define_body(flags):
    flags.DEFINE_enum(
        "body",
        _DEFAULT.body,
        settings.BODIES,
        "recurrent: layers of --cell. transformer: causal blocks, which see "
        "the window of --steps tokens and nothing before it.",
    )
    flags.DEFINE_string(
        "cell",
        _DEFAULT.cell,
        f"Recurrent cell: {', '.join(settings.CELLS)}; or a Keras cell of your "
        "own as module:Class or path/file.py:Class, made as Class(units).",
    )
    flags.DEFINE_bool(
        "stateful",
        _DEFAULT.stateful,
        "Whether recurrent states last from window to window; else each begins "
        "at zero.",
    )
    flags.DEFINE_integer(
        "attention_heads",
        _DEFAULT.attention_heads,
        "Of each block of --body=transformer; they share its width.",
    )
    flags.DEFINE_list(
        "units",
        str(_DEFAULT.units),
        "Width of each layer, as 512,256; a single width is that of all "
        "--layers.",
    )
    flags.DEFINE_integer(
        "layers",
        None,
        "Recurrent layers, or blocks; by default as many as --units has.",
    )
    flags.DEFINE_integer(
        "embedding",
        _DEFAULT.embedding,
        "Width of the embedding; by default that of the first layer.",
    )
    flags.DEFINE_integer(
        "projection",
        _DEFAULT.projection,
        "Width of a linear layer without bias before the head; by default "
        "there is none.",
    )
    flags.DEFINE_float(
        "dropout",
        _DEFAULT.dropout,
        "Share of a layer's inputs set to zero in training.",
    )
    flags.DEFINE_float(
        "l2",
        _DEFAULT.l2,
        "Weight of the sum of squares that is added to the loss: of all "
        "matrices but the embedding, and of the rows of the head that a step "
        "touches. Its gradient is 2 l2 w: half of what papers call weight "
        "decay.",
    )


def _define_training(flags):
    flags.DEFINE_integer(
        "batch_size",
        _DEFAULT.batch_size,
        "Parallel streams into which the text is cut.",
    )
    flags.DEFINE_integer(
        "steps",
        _DEFAULT.steps,
        "Tokens of a stream in one training step. The recurrent state lasts to "
        "the next step, the gradient does not.",
    )
    flags.DEFINE_integer("epochs", _DEFAULT.epochs, "Passes over the text.")
    flags.DEFINE_enum(
        "optimizer",
        _DEFAULT.optimizer,
        list(settings.LEARNING_RATES),
        "Of tf_hsm.optimizers, for the whole model.",
    )
    rates = (f"{rate:g} of {x}" for x, rate in settings.LEARNING_RATES.items())
    flags.DEFINE_float(
        "learning_rate",
        _DEFAULT.learning_rate,
        f"The rate at the start; by default {', '.join(rates)}.",
    )
    flags.DEFINE_float(
        "initial_accumulator",
        _DEFAULT.initial_accumulator,
        "From where the sums of squares of adagrad and rowwise_adagrad begin.",
    )
    flags.DEFINE_float(
        "clipnorm",
        _DEFAULT.clipnorm,
        "Largest norm of all gradients together; 0: any.",
    )
    flags.DEFINE_enum(
        "decay",
        _DEFAULT.decay,
        settings.DECAYS,
        "How the rate falls. cosine: along a cosine to a twentieth. none: not "
        "at all. halve: by half after each epoch from --decay_from on. "
        "plateau: by half after each epoch whose held-out perplexity is not "
        f"{settings.PLATEAU:.0%} below that of the epoch before.",
    )
    flags.DEFINE_integer(
        "decay_from",
        _DEFAULT.decay_from,
        "The first epoch after which --decay=halve halves the rate.",
    )
    flags.DEFINE_integer("seed", _DEFAULT.seed, "Seed of all random numbers.")
