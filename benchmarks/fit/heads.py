"""The heads: layers and optimizers as a user of Keras writes them."""

from typing import NamedTuple

import keras
import numpy as np

import tf_hsm

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
    """Returns a layer of `LAYERS` for a `tasks.Task`."""
    return LAYERS[name](task, seed)


def attach(head, contexts, hidden, rate):
    """Returns the `Candidate` of a layer.

    Args:
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
    model.compile(optimizer, loss)
    return Candidate(model, keras.Model([contexts, labels], [log_prob, best]))


def _dense(task, seed):
    del seed
    return keras.layers.Dense(task.num_classes)


def _dense_counts(task, seed):
    del seed
    counts = np.maximum(task.counts, 0.5)
    biases = np.log(counts / task.counts.sum()).astype(np.float32)
    return keras.layers.Dense(
        task.num_classes, bias_initializer=keras.initializers.Constant(biases)
    )


def _sampled(task, seed):
    # The default sampler needs classes in the order of their counts.
    return tf_hsm.layers.SampledSoftmax(
        task.num_classes,
        num_sampled=min(_NUM_SAMPLED, task.num_classes),
        sampler="counts",
        counts=task.counts,
        seed=seed,
    )


def _adaptive(task, seed):
    del seed
    return tf_hsm.layers.AdaptiveSoftmax(task.num_classes, counts=task.counts)


def _two_level(task, seed):
    del seed
    return tf_hsm.layers.HierarchicalSoftmax(
        tf_hsm.Tree.two_level(task.num_classes), counts=task.counts
    )


def _from_counts(task, seed):
    del seed
    return tf_hsm.layers.HierarchicalSoftmax(
        tf_hsm.Tree.from_counts(task.counts)
    )


def _from_data(task, seed):
    del seed
    tree = tf_hsm.Tree.from_data(
        task.labels, task.contexts, num_classes=task.num_classes
    )
    return tf_hsm.layers.HierarchicalSoftmax(tree)


LAYERS = {
    "dense": _dense,
    "dense_counts": _dense_counts,
    "sampled": _sampled,
    "adaptive": _adaptive,
    "two_level": _two_level,
    "from_counts": _from_counts,
    "from_data": _from_data,
}
