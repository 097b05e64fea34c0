"""The cases: a head, a model around it, an optimizer and labels.

`make.py` writes and checks files of each case. These modules call public
functions of tf_hsm, and pass all arguments after the first by keyword.
"""

import dataclasses
from collections.abc import Callable

import keras
import numpy as np

from tests.golden.heads import bodies
from tests.golden.heads.bodies import NUM_CLASSES, WIDTH
from tf_hsm import Tree
from tf_hsm.layers import (
    AdaptiveSoftmax,
    EmbeddingSoftmax,
    HierarchicalSoftmax,
    LabelTree,
    SampledSoftmax,
)
from tf_hsm.optimizers import SGD, Adagrad, LazyAdam, RowwiseAdagrad

NUM_EMBEDDINGS = 17
COUNTS = 1 + np.arange(NUM_CLASSES) * 7 % 23
HEADS = (
    AdaptiveSoftmax,
    EmbeddingSoftmax,
    HierarchicalSoftmax,
    LabelTree,
    SampledSoftmax,
)


def make_model(name):
    """Returns the compiled model of a case, not trained."""
    case = CASES[name]
    keras.utils.set_random_seed(1)
    head = case.head()
    model = case.body(head)
    loss = None if case.body is bodies.endpoint else head.loss
    model.compile(case.optimizer(), loss=loss, run_eagerly=case.eager)
    return model


def head_of(model):
    """Returns the head of a model."""
    (head,) = (layer for layer in model.layers if isinstance(layer, HEADS))
    return head


def classes(rng, shape):
    """One class for each input."""
    return rng.integers(NUM_CLASSES, size=shape)


def classes_or_none(rng, shape):
    """One class for each input, or -1, which does not count."""
    return rng.integers(-1, NUM_CLASSES, size=shape)


def rows(rng, shape):
    """One row of the tree for each input."""
    return rng.integers(TREE.num_rows, size=shape)


def label_sets(rng, shape):
    """Up to 3 classes for each input, then -1."""
    labels = rng.permuted(np.tile(np.arange(NUM_CLASSES), [*shape, 1]), axis=-1)
    sizes = rng.integers(4, size=[*shape, 1])
    return np.where(np.arange(3) < sizes, labels[..., :3], -1)


def _normal(**options):
    """Adds initializers of large values, so that no answers are near ties."""
    return {
        "name": "head",
        "kernel_initializer": keras.initializers.RandomNormal(
            stddev=0.7, seed=3
        ),
        "bias_initializer": keras.initializers.RandomNormal(stddev=0.5, seed=4),
        **options,
    }


def _hierarchical(tree=None, **options):
    return lambda: HierarchicalSoftmax(tree or TREE, **_normal(**_new(options)))


def _adaptive(**options):
    options = {"cutoffs": [5, 14], "div_value": 2.0, **options}
    return lambda: AdaptiveSoftmax(NUM_CLASSES, **_normal(**_new(options)))


def _embedding(**options):
    return lambda: EmbeddingSoftmax(
        TREE,
        num_embeddings=NUM_EMBEDDINGS,
        width=WIDTH,
        padding_id=-1,
        embeddings_initializer=keras.initializers.RandomNormal(seed=5),
        **_normal(**_new(options)),
    )


def _label_tree(**options):
    return lambda: LabelTree(TREE, **_normal(**_new(options)))


def _sampled(**options):
    return lambda: SampledSoftmax(NUM_CLASSES, **_normal(**_new(options)))


def _new(options):
    """Calls the makers of optimizers, which belong to one layer each."""
    return {
        name: value() if name == "optimizer" else value
        for name, value in options.items()
    }


def adam():
    """A large epsilon keeps the rounding of small gradients small."""
    return LazyAdam(0.05, epsilon=0.01, sparse_beta_1=0.9)


def adagrad():
    """An optimizer with a slot for each weight."""
    return Adagrad(0.1, initial_accumulator_value=0.1)


def rowwise():
    """An optimizer with a slot for each row."""
    return RowwiseAdagrad(0.1, initial_accumulator_value=0.1)


def sgd():
    """An optimizer without slots."""
    return SGD(learning_rate=0.1)


@dataclasses.dataclass(frozen=True)
class Case:
    """A model and its labels.

    Attributes:
        head: A function that returns the head.
        body: A function of `bodies`, from the head to a model.
        optimizer: A function that returns the model's optimizer.
        labels: A function that returns the labels. It takes a random generator
            and the shape of the inputs without their last dimension.
        nodes: Whether labels are rows of the tree.
        eager: Whether the model trains without a graph, which is faster.
    """

    head: Callable
    body: Callable = bodies.vectors
    optimizer: Callable = adam
    labels: Callable = classes
    nodes: bool = False
    eager: bool = True


TREE = Tree.huffman(COUNTS, branching=3).with_counts(None)
CASES = {
    "hierarchical_adam": Case(
        _hierarchical(ignore_class=-1), bodies.tokens, labels=classes_or_none
    ),
    "hierarchical_own": Case(_hierarchical(optimizer=rowwise), eager=False),
    "hierarchical_smoothed": Case(
        _hierarchical(
            label_smoothing=0.1,
            smoothing_prior=COUNTS,
            kernel_regularizer=keras.regularizers.L2(0.01),
            bias_regularizer=keras.regularizers.L1(0.02),
            kernel_constraint=keras.constraints.MaxNorm(1.2, axis=1),
            bias_constraint=keras.constraints.NonNeg(),
        ),
        optimizer=adagrad,
    ),
    "hierarchical_weighted": Case(
        _hierarchical(
            class_weights={2: 0.0, 7: 3.0}, focal_gamma=2.0, optimizer=adam
        ),
        bodies.endpoint,
        sgd,
    ),
    "hierarchical_nodes": Case(
        _hierarchical(node_labels=True),
        optimizer=rowwise,
        labels=rows,
        nodes=True,
    ),
    "hierarchical_several": Case(
        _hierarchical(several_labels=True, class_weights=COUNTS / 10),
        labels=label_sets,
    ),
    "hierarchical_pinned": Case(
        _hierarchical(Tree.huffman(COUNTS, pinned=True), use_bias=False)
    ),
    "hierarchical_devices": Case(
        _hierarchical(devices=["CPU:0", "CPU:0"], optimizer=adam),
        optimizer=sgd,
    ),
    "hierarchical_bfloat16": Case(
        _hierarchical(
            dtype="bfloat16", optimizer=adam, stochastic_rounding=True, seed=5
        ),
        optimizer=sgd,
    ),
    "adaptive_own": Case(
        _adaptive(counts=COUNTS, tail=["flat", 3], optimizer=adagrad),
        optimizer=sgd,
    ),
    "adaptive_embed": Case(
        _adaptive(width=WIDTH, use_bias="head", ignore_class=-1),
        bodies.tied,
        labels=classes_or_none,
    ),
    "adaptive_embed_own": Case(
        _adaptive(width=WIDTH, counts=COUNTS, optimizer=rowwise), bodies.tied
    ),
    "embedding_own": Case(
        _embedding(optimizer=rowwise, combiner="sum"), bodies.bags, sgd
    ),
    "embedding_gradients": Case(_embedding(), bodies.bags),
    "label_tree_own": Case(
        _label_tree(optimizer=adagrad), optimizer=sgd, labels=label_sets
    ),
    "label_tree_gradients": Case(_label_tree(), labels=label_sets),
    "sampled_counts": Case(
        _sampled(num_sampled=9, sampler="counts", counts=COUNTS, seed=6)
    ),
}
