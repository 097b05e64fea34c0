"""The heads: layers and optimizers as a user of Keras writes them."""

from typing import NamedTuple

import keras
import numpy as np

import tf_hsm

NAMES = (
    "dense",
    "dense_counts",
    "dense_xla",
    "sampled",
    "adaptive",
    "two_level",
    "from_counts",
    "from_data",
)
_K = 10
_NUM_SAMPLED = 1024


class Candidate(NamedTuple):
    """A body with one head.

    Attributes:
      model: a compiled model from contexts to what `fit` needs.
      answers: a model from contexts and labels `[B, 1]` to the labels'
        log-probabilities `[B, 1]` and the 10 best classes `[B, 10]`.
    """

    model: keras.Model
    answers: keras.Model


def layer(name, task, seed):
    """Returns the layer of a name in `NAMES` for a `tasks.Task`."""
    layers, counts, num_classes = tf_hsm.layers, task.counts, task.num_classes
    if name == "dense":
        return keras.layers.Dense(num_classes)
    if name in ("dense_counts", "dense_xla"):
        biases = np.log(np.maximum(counts, 0.5) / counts.sum())
        initializer = keras.initializers.Constant(biases.astype(np.float32))
        return keras.layers.Dense(num_classes, bias_initializer=initializer)
    if name == "sampled":
        # The default sampler needs classes in the order of their counts.
        return layers.SampledSoftmax(
            num_classes,
            num_sampled=min(_NUM_SAMPLED, num_classes),
            sampler="counts",
            counts=counts,
            seed=seed,
        )
    if name == "adaptive":
        return layers.AdaptiveSoftmax(num_classes, counts=counts)
    if name == "two_level":
        tree = tf_hsm.Tree.two_level(num_classes).with_counts(counts)
    elif name == "from_counts":
        tree = tf_hsm.Tree.from_counts(counts)
    else:
        tree = tf_hsm.Tree.from_data(
            task.labels, task.contexts, num_classes=num_classes
        )
    return layers.HierarchicalSoftmax(tree)


def attach(name, head, contexts, hidden, rate):
    """Returns the `Candidate` of a layer.

    Args:
      name: one of `NAMES`.
      head: what `layer` returned.
      contexts: the input of the body.
      hidden: the output of the body.
      rate: the learning rate, or a schedule.
    """
    labels = keras.Input([1], dtype="int32")
    output = head(hidden)
    model = keras.Model(contexts, output)
    if isinstance(head, keras.layers.Dense):
        loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
        optimizer = keras.optimizers.Adam(rate)
        log_probs = keras.ops.log_softmax(output)
        log_prob = keras.ops.take_along_axis(log_probs, labels, axis=1)
        best = keras.ops.top_k(output, _K)[1]
    else:
        loss, optimizer = head.loss, tf_hsm.optimizers.LazyAdam(rate)
        log_prob = head.log_prob(labels, output)
        best = head.top_k(output, _K)[1]
    is_compiled = True if name == "dense_xla" else "auto"  # Keras' default
    model.compile(optimizer, loss, jit_compile=is_compiled)
    return Candidate(model, keras.Model([contexts, labels], [log_prob, best]))
