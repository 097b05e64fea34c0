"""Hashes the results of some 350 calls, to compare two builds bit by bit.

    bazel run //tests:bits -- --output=before.txt
    bazel run //tests:bits -- --against=before.txt

The calls go over element types, trees, ops, optimizers and layers, through the
public API only, so that a wheel of another version can be asked as well:

    PYTHONPATH=folder_with_the_wheel python tests/bits.py

Bits depend on the instruction set: see `TF_HSM_CPU_ISA`.
"""

import hashlib
import itertools
import pathlib
import zlib

import keras
import numpy as np
import tensorflow as tf
from absl import app, flags

import tf_hsm

_OUTPUT = flags.DEFINE_string("output", None, "Writes the hashes here.")
_AGAINST = flags.DEFINE_string("against", None, "Hashes to compare with.")

_DTYPES = ("float32", "bfloat16", "float16", "float64")
_WIDTH = 35  # no multiple of any vector
_BATCH = 90

_TREES = {
    "two_level": lambda: tf_hsm.Tree.two_level(1013),
    "binary": lambda: tf_hsm.Tree.balanced(237, 2),
    "pinned": lambda: tf_hsm.Tree.balanced(237, 2).pin(),
    "levels": lambda: tf_hsm.Tree.balanced(590, [3, 40, 5]),
    "huffman": lambda: tf_hsm.Tree.huffman(
        10_000 // np.arange(1, 404), branching=3
    ),
    "flat": lambda: tf_hsm.Tree.balanced(397, 397),
    "ragged": lambda: tf_hsm.Tree.from_nested(
        [[*range(30)], 30, [31, [32, [*range(33, 150)]]], [150, 151]]
    ),
}
_RULES = {
    "sgd": lambda: tf_hsm.optimizers.SGD(0.1),
    "adagrad": lambda: tf_hsm.optimizers.Adagrad(0.1, 0.1),
    "rowwise_adagrad": lambda: tf_hsm.optimizers.RowwiseAdagrad(0.1, 0.1),
    "lazy_adam": lambda: tf_hsm.optimizers.LazyAdam(0.01),
}


class _Problem:
    """A head, labels and inputs, the same for the same name."""

    def __init__(self, name, tree, dtype):
        rng = np.random.default_rng(zlib.crc32(name.encode()))

        def normal(*shape):
            return tf.cast(rng.normal(size=shape), dtype)

        self.tree = tree
        rows = tree.num_weight_rows
        self.weights = tf.Variable(normal(rows, _WIDTH) * 0.3)
        self.biases = tf.Variable(normal(rows))
        self.head = tf_hsm.TreeHead(self.weights, self.biases, tree)
        self.labels = rng.integers(tree.num_classes, size=_BATCH)
        self.classes = rng.integers(tree.num_classes, size=(_BATCH, 3))
        self.inputs = normal(_BATCH, _WIDTH)
        self.vectors = tf.Variable(normal(20, _WIDTH))
        self.indices = rng.integers(20, size=_BATCH)


def _on_variable(problem, **options):
    with tf.GradientTape() as tape:
        tape.watch(problem.inputs)
        loss = problem.head.loss(problem.labels, problem.inputs, **options)
    return loss, *tape.gradient(
        loss, [problem.weights, problem.biases, problem.inputs]
    )


def _smoothed(problem):
    return _on_variable(problem, label_smoothing=0.3)


def _on_tensor(problem):
    weights = problem.weights.value()
    head = tf_hsm.TreeHead(weights, None, problem.tree)
    with tf.GradientTape() as tape:
        tape.watch([weights, problem.inputs])
        ignored = int(problem.labels[0])
        loss = head.loss(problem.labels, problem.inputs, ignore_class=ignored)
        total = tf.reduce_mean(loss)
    return loss, *tape.gradient(total, [weights, problem.inputs])


def _log_probs(problem):
    with tf.GradientTape() as tape:
        tape.watch(problem.inputs)
        log_probs = problem.head.log_probs(problem.inputs)
        total = tf.reduce_mean(log_probs[:, ::3])
    return log_probs, *tape.gradient(
        total, [problem.weights, problem.biases, problem.inputs]
    )


def _log_prob(problem):
    return problem.head.log_prob(problem.classes, problem.inputs)


def _top_k(problem):
    beam = {"beam_width": 2, "return_pruned": True}
    return [
        *problem.head.top_k(problem.inputs, 5),
        *problem.head.top_k(problem.inputs, 4, **beam),
    ]


def _sample(problem):
    return [
        problem.head.sample(problem.inputs, 7, seed=3, **options)
        for options in (
            {},
            {"temperature": 0.7},
            {"top_k": 5, "temperature": 1.3},
            {"top_p": 0.8},
        )
    ]


_FUNCTIONS = (
    _on_variable,
    _smoothed,
    _on_tensor,
    _log_probs,
    _log_prob,
    _top_k,
    _sample,
)


def _train_step(problem, optimizer):
    optimizer.build([problem.weights, problem.biases])
    losses = [
        problem.head.train_step(
            problem.labels, problem.inputs, optimizer, seed=5
        )
        for _ in range(2)
    ]
    return *losses, problem.weights, problem.biases, *optimizer.variables[2:]


def _embedding_train_step(problem, optimizer):
    optimizer.build([problem.weights, problem.vectors])
    losses = [
        tf_hsm.hierarchical_softmax_embedding_train_step(
            problem.weights,
            None,
            problem.labels,
            problem.vectors,
            problem.indices,
            problem.tree,
            optimizer,
            loss_weights=1.0,
            seed=5,
        )
        for _ in range(2)
    ]
    return *losses, problem.weights, problem.vectors, *optimizer.variables[2:]


def _apply(problem, optimizer):
    optimizer.build([problem.weights, problem.biases])
    for _ in range(2):
        _, *grads, _ = _on_variable(problem)
        optimizer.apply(grads, [problem.weights, problem.biases])
    return problem.weights, problem.biases, *optimizer.variables[2:]


_STEPS = (_train_step, _embedding_train_step, _apply)


def _layer(problem, make):
    """A layer after a short training: its weights, and all that it answers."""
    keras.utils.set_random_seed(1)
    head = make()
    model = keras.Sequential([keras.layers.Dense(_WIDTH), head])
    model.compile(
        tf_hsm.optimizers.Adagrad(0.1, 0.1),
        head.loss,
        metrics=[
            tf_hsm.metrics.Perplexity(head),
            tf_hsm.metrics.TopKAccuracy(head, 3),
        ],
    )
    inputs = tf.cast(problem.inputs, tf.float32)
    weights = np.linspace(0.5, 1.5, _BATCH).astype(np.float32)
    history = model.fit(
        inputs,
        problem.labels,
        sample_weight=weights,
        batch_size=40,
        epochs=2,
        shuffle=False,
        verbose=0,
    )
    return [
        np.array(list(history.history.values())),
        *model.get_weights(),
        model.predict(inputs, verbose=0),
        head.predict_class(inputs),
        *head.top_k(inputs, 4),
        head.log_prob(problem.classes, inputs),
        head.log_probs(inputs),
        head.sample(inputs, 3, seed=2),
    ]


def _layers(tree):
    counts = 1000 // np.arange(1, tree.num_classes + 1) + 1
    layers = tf_hsm.layers
    return {
        "plain": lambda: layers.HierarchicalSoftmax(tree, counts=counts),
        "in_place": lambda: layers.HierarchicalSoftmax(
            tree, optimizer="rowwise_adagrad"
        ),
        "bfloat16": lambda: layers.HierarchicalSoftmax(
            tree, optimizer="lazy_adam", dtype="bfloat16", use_bias=False
        ),
        "adaptive": lambda: layers.AdaptiveSoftmax(
            tree.num_classes, cutoffs=[20, 80], div_value=2.0, counts=counts
        ),
        "sampled": lambda: layers.SampledSoftmax(
            tree.num_classes, num_sampled=20, sampler="counts", counts=counts
        ),
        "adaptive_trees": lambda: layers.AdaptiveSoftmax(
            tree.num_classes, cutoffs=[40], tail="two_level", width=_WIDTH
        ),
    }


def _calls():
    """Yields the name of each call, and a function that makes it."""
    trees = {name: make() for name, make in _TREES.items()}
    for call, (name, tree), dtype in itertools.product(
        _FUNCTIONS, trees.items(), _DTYPES
    ):
        key = f"{name} {dtype}"
        yield (
            f"{call.__name__} {key}",
            lambda c=call, k=key, t=tree, d=dtype: c(_Problem(k, t, d)),
        )
    for call, rule, name, dtype in itertools.product(
        _STEPS, _RULES, ("two_level", "huffman", "pinned"), _DTYPES
    ):
        key = f"{name} {dtype}"
        yield (
            f"{call.__name__} {rule} {key}",
            lambda c=call, r=rule, k=key, n=name, d=dtype: c(
                _Problem(k, trees[n], d), _RULES[r]()
            ),
        )
    tree = trees["levels"]
    for name, make in _layers(tree).items():
        yield (
            f"_layer {name}",
            lambda m=make: _layer(_Problem("layer", tree, "float32"), m),
        )


def _digest(results):
    """Hashes tensors, variables, slices of gradients and arrays."""
    digest = hashlib.sha256()
    for result in tf.nest.flatten(results, expand_composites=True):
        array = np.asarray(keras.ops.convert_to_numpy(result))
        digest.update(f"{array.dtype} {array.shape}".encode())
        digest.update(np.ascontiguousarray(array))
    return digest.hexdigest()[:16]


def main(argv):
    """Makes all calls; exits with 1 where one differs."""
    del argv
    lines = [f"{name.lstrip('_')} {_digest(call())}" for name, call in _calls()]
    print(f"{len(lines)} calls on {tf_hsm.cpu_isa()}, tf_hsm of", end=" ")
    print(pathlib.Path(tf_hsm.__file__).parent)
    if _OUTPUT.value:
        pathlib.Path(_OUTPUT.value).write_text("\n".join(lines) + "\n")
    if _AGAINST.value:
        known = pathlib.Path(_AGAINST.value).read_text().splitlines()
        changed = sorted(set(lines) ^ set(known))
        print(
            f"{len(changed)} differ from {_AGAINST.value}", *changed, sep="\n"
        )
        return int(bool(changed))
    return 0


if __name__ == "__main__":
    app.run(main)
