"""The head of a language model that `bazel run //:train` saved."""

import math
from typing import NamedTuple

import numpy as np
import tensorflow as tf

import tf_hsm
from benchmarks.common import implementations, workloads
from benchmarks.top_k import heads
from examples.corpora import corpus
from examples.language_model import batches, checkpoint, recurrent
from examples.language_model import model as model_lib


class TrainedSource(NamedTuple):
    """A trained head, asked about the hidden vectors of held-out text.

    The vectors are drawn without repetition from the beginning of the text, of
    which no more is read than they take.
    """

    folder: str

    def __str__(self):
        """Names the head."""
        return f"trained model in {self.folder}"

    def description(self):
        """What the JSON file says of it."""
        return {"model": self.folder}

    def make(self, num_inputs, limits):
        """Returns (`Head`, None): a model that was trained does fit.

        Raises:
          OSError: there is no model, or its text is not there.
          ValueError: the head is of another kind, or the text another one.
        """
        del limits
        model, state = checkpoint.load(self.folder)
        layer = model.get_layer("head")
        if not isinstance(layer, tf_hsm.layers.HierarchicalSoftmax):
            raise ValueError(
                f"{self.folder}: the head is {type(layer).__name__}; there "
                "must be a HierarchicalSoftmax"
            )
        settings = state.settings
        text = corpus.load(settings)
        if text.digest != state.digest:
            raise ValueError(
                f"{self.folder}: the text in {settings.corpus} is not the one "
                "that the model was trained on"
            )
        shape = (settings.batch_size, settings.steps)
        windows = batches.Windows(text.valid, *shape, "held-out text")
        inputs = _hidden_vectors(model, windows, num_inputs)
        sizes = workloads.Workload(
            layer.tree.num_classes, inputs.shape[1], num_inputs
        )
        return heads.Head(
            layer.tree,
            implementations.Parameters(layer.kernel, layer.bias),
            inputs,
            sizes,
            layer.variable_dtype,
        ), None


def _hidden_vectors(model, windows, num_inputs):
    """Returns `[num_inputs, D]`, or as many as the text has."""
    recurrent.reset_states(model)
    body = model_lib.body(model)
    num = min(math.ceil(num_inputs / windows[0][0].size), len(windows))
    hidden = np.concatenate([np.array(body(windows[i][0])) for i in range(num)])
    hidden = hidden.reshape(-1, hidden.shape[-1])
    order = np.random.default_rng(0).permutation(len(hidden))[:num_inputs]
    return tf.constant(hidden[order])
