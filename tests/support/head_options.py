"""The heads, and the options that conformance tests try on each of them."""

import itertools

import keras
import numpy as np
import tensorflow as tf

import tf_hsm
from tests.support import head_oracle
from tests.support.in_place_models import make_adaptive
from tests.support.models import NUM_CLASSES, TREE, WIDTH, make_head
from tf_hsm import Tree, layers

BATCH, COUNT = 11, 17
FLAT = Tree.flat(NUM_CLASSES)
PINNED = Tree.huffman(1 + np.arange(NUM_CLASSES), pinned=True)
PRIOR = np.arange(NUM_CLASSES) % 7 / 3  # some never occur
WEIGHTS = np.arange(NUM_CLASSES) / 8


def tied(**options):
    """The weights are a table that the model trains."""
    embedding = keras.layers.Embedding(NUM_CLASSES, WIDTH, dtype="float64")
    return layers.HierarchicalSoftmax(FLAT, tied_to=embedding, **options)


HEADS = {
    "hierarchical": make_head,
    "flat": lambda **options: make_head(FLAT, **options),
    "pinned": lambda **options: make_head(PINNED, **options),
    "sharded": lambda **options: make_head(
        plan=tf_hsm.distribute.plan(TREE, ["CPU:0"] * 3, top=8), **options
    ),
    "tied": tied,
    "embedding": lambda **options: layers.EmbeddingSoftmax(
        TREE, num_embeddings=COUNT, width=WIDTH, **options
    ),
    "adaptive": make_adaptive,
    "wide_tails": lambda **options: layers.AdaptiveSoftmax(
        NUM_CLASSES, cutoffs=[5, 14], div_value=1, use_bias="head", **options
    ),
    "pinned_tails": lambda **options: layers.AdaptiveSoftmax(
        NUM_CLASSES,
        cutoffs=[14],
        tail=[Tree.huffman(range(16)).pin()],
        **options,
    ),
    "no_tails": lambda **options: layers.AdaptiveSoftmax(
        NUM_CLASSES, cutoffs=[], **options
    ),
    # All classes are in the sample.
    "sampled": lambda **options: layers.SampledSoftmax(
        NUM_CLASSES, num_sampled=NUM_CLASSES + 5, **options
    ),
    "label_tree": lambda **options: layers.LabelTree(TREE, **options),
}
SMOOTHED = {"label_smoothing": 0.25}
TO_PRIOR = {**SMOOTHED, "smoothing_prior": PRIOR}
SEVERAL, NODES = {"several_labels": True}, {"node_labels": True}
FOCAL = {"focal_gamma": 1.5}
CAPPED = {"logit_soft_cap": 2.0}
OPTIONS = {
    "plain": {},
    "ignored": {"ignore_class": 3},
    "no_bias": {"use_bias": False},
    "several": SEVERAL,
    "several_ignored": {**SEVERAL, "ignore_class": 3},
    "nodes": NODES,
    "several_nodes": {**SEVERAL, **NODES},
    "smoothed": SMOOTHED,
    "to_prior": TO_PRIOR,
    "several_to_prior": {**SEVERAL, **TO_PRIOR},
    "nodes_to_prior": {**NODES, **TO_PRIOR},
    "several_nodes_smoothed": {
        **SEVERAL,
        **NODES,
        **SMOOTHED,
        "ignore_class": 3,
    },
    "weights": {"class_weights": WEIGHTS, "ignore_class": -1},
    "focal": FOCAL,
    "several_weights_focal": {**SEVERAL, "class_weights": WEIGHTS, **FOCAL},
    "capped": CAPPED,
    "z_loss": {"z_loss": 0.25},
    "capped_z_loss_weights": {
        **CAPPED,
        "z_loss": 0.25,
        "class_weights": WEIGHTS,
    },
    "several_smoothed_z_loss": {**SEVERAL, **SMOOTHED, "z_loss": 0.25},
}
# What heads lack, of what the options are made of.
OF_ONE_GROUP = {"logit_soft_cap", "z_loss"}
LACKS = {
    "hierarchical": OF_ONE_GROUP,
    "pinned": OF_ONE_GROUP,
    "sharded": OF_ONE_GROUP | {"node_labels"},
    "embedding": OF_ONE_GROUP,
    "adaptive": OF_ONE_GROUP | {"node_labels"},
    "sampled": OF_ONE_GROUP | {"node_labels", "label_smoothing"},
    "label_tree": {
        name
        for options in OPTIONS.values()
        for name in options
        if name not in ("ignore_class", "use_bias")
    },
}
CASES = [
    (head, option)
    for head, (option, its) in itertools.product(HEADS, OPTIONS.items())
    if not its.keys() & LACKS.get(head, set())
    and (not head.endswith("tails") or option in ("plain", "several_to_prior"))
]


def make_labels(head):
    """Labels or rows `[B, M]`, -1 for none; one of them is ignored."""
    rng = np.random.default_rng(0)
    labels = rng.integers(NUM_CLASSES, size=[BATCH, 4])
    if getattr(head, "node_labels", False):
        labels = np.vectorize(lambda c: rng.choice(head.tree.path(c)))(labels)
    if head.ignore_class is not None:
        labels[1, 0] = labels[3] = head.ignore_class
    if not head.several_labels:
        return labels[:, :1]
    counts = rng.integers(5, size=[BATCH, 1])
    counts[2] = 0
    return np.where(np.arange(4) < counts, labels, -1)


def make_inputs(head, seed=1):
    rng = np.random.default_rng(seed)
    if hasattr(head, "num_embeddings"):
        return tf.constant(rng.integers(COUNT, size=BATCH))
    return tf.constant(rng.normal(size=[BATCH, WIDTH]))


def built(name, option, own=False, dtype="float64"):
    """A head with random weights, whose own optimizer is SGD(1)."""
    optimizer = {"optimizer": tf_hsm.optimizers.SGD(1.0)} if own else {}
    head = HEADS[name](dtype=dtype, **optimizer, **OPTIONS[option])
    if name == "tied":
        head.tied_to.build()
    head.build([None, WIDTH])
    rng = np.random.default_rng(2)
    for variable in variables_of(head):
        variable.assign(rng.normal(size=variable.shape))
    return head


def variables_of(head):
    """What the losses have a gradient of, but for the inputs."""
    projections = getattr(head, "projections", [])
    rows = head.row_variables()
    return [*rows, *(p for p in projections if p is not None)]


def drawn(head, labels, given):
    """A mask `[B]`, and weights `[B]` or `[B, M]`; or None."""
    rng = np.random.default_rng(3)
    mask = rng.random(BATCH) < 0.7 if given == "mask" else None
    if not given.startswith("weights"):
        return mask, None
    has_many = head.several_labels and not isinstance(head, layers.LabelTree)
    is_each = given == "weights of labels" and has_many
    return mask, rng.uniform(size=labels.shape if is_each else [BATCH])


def expected(head, x, labels, mask, weights):
    """What is minimized, and the losses `[B]`."""
    ignored = head.ignore_class
    labels = np.where(
        labels == (-1 if ignored is None else ignored), -1, labels
    )
    counts = np.full(BATCH, True) if mask is None else mask
    is_set = type(head).__name__ == "LabelTree"
    of_labels = None
    if weights is not None and weights.ndim == 2:
        of_labels, weights = weights, None
    losses = counts * head_oracle.losses(head, x, labels, of_labels)
    counts = counts & (is_set | (labels >= 0).any(1))
    total = tf.reduce_sum(losses * (1 if weights is None else weights))
    return total / counts.sum(), losses


def slopes(head, inputs, ask):
    """A total, and its gradient by inputs and variables; or what a step takes.

    The model trains the projections of a head that makes its steps itself.
    """
    variables = variables_of(head)
    own = [] if head.optimizer is None else head.row_variables()
    before = [v.numpy() for v in variables]
    with tf.GradientTape() as tape:
        tape.watch(inputs)
        total = ask()
    sources = [v.value for v in (*variables, *head.trainable_variables)]
    dx, *found = tape.gradient(total, [inputs, *sources])
    moved = [
        old - v.numpy() if any(v is one for one in own) else slope
        for v, old, slope in zip(variables, before, found, strict=False)
    ]
    return total, [dx, *moved]


def assert_close(found, wanted, tolerance=1e-6):
    for one, other in zip(found, wanted, strict=True):
        assert (one is None) == (other is None)
        if one is not None:
            np.testing.assert_allclose(
                tf.convert_to_tensor(one),
                tf.convert_to_tensor(other),
                rtol=tolerance,
                atol=tolerance,
            )
