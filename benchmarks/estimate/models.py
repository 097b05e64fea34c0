"""The models that are trained: a body of Keras layers and a head."""

from collections.abc import Callable
from typing import NamedTuple

import keras

from benchmarks.estimate import bodies, heads


class Model(NamedTuple):
    """A model and its training step.

    Attributes:
      name: of the model.
      batch: examples, or sequences, in a step.
      length: of a sequence; None if an example is a token, or a vector.
      vocabulary: of the tokens; None if inputs are vectors of `width`.
      width: of the inputs, where they are vectors.
      body: a function of a KerasTensor: the layers between inputs and head.
      head: a `heads.LayerHead` or a `heads.FunctionHead`.
      optimizer: of the model, a name of Keras or a class of ours.
    """

    name: str
    batch: int
    length: int | None
    vocabulary: int | None
    body: Callable
    head: heads.LayerHead | heads.FunctionHead
    optimizer: str = "adam"
    width: int | None = None

    def make_body(self):
        """Makes the Keras model of the body."""
        inputs = self.inputs()
        return keras.Model(inputs, self.body(inputs))

    def inputs(self):
        """Makes the KerasTensor of the inputs."""
        shape = () if self.length is None else (self.length,)
        if self.vocabulary is None:
            return keras.Input((*shape, self.width))
        return keras.Input(shape, dtype="int32")


def _word(name, head, **others):
    """An embedding of a word, whose head tells of another."""
    return Model(
        f"embedding-{name}",
        others.pop("batch", 1_000),
        None,
        100_000,
        bodies.embedding(100_000, 128),
        head,
        **others,
    )


_ALL = [
    Model(
        "rnn-full",
        32,
        40,
        20_000,
        bodies.recurrent(20_000, 128, "SimpleRNN", [256]),
        heads.full(20_000),
    ),
    Model(
        "lstm-hierarchical",
        32,
        35,
        100_000,
        bodies.recurrent(100_000, 256, "LSTM", [512]),
        heads.hierarchical(100_000),
        optimizer="lazy_adam",
    ),
    Model(
        "lstm-in-place",
        32,
        35,
        100_000,
        bodies.recurrent(100_000, 256, "LSTM", [512, 512]),
        heads.hierarchical(100_000, "rowwise_adagrad"),
    ),
    Model(
        "lstm-full",
        20,
        35,
        10_000,
        bodies.recurrent(10_000, 256, "LSTM", [512]),
        heads.full(10_000),
        optimizer="sgd",
    ),
    Model(
        "lstm-sampled",
        32,
        35,
        50_000,
        bodies.recurrent(50_000, 256, "LSTM", [512]),
        heads.baseline("sampled", 50_000),
        optimizer="adagrad",
    ),
    Model(
        "gru-hierarchical",
        32,
        35,
        50_000,
        bodies.recurrent(50_000, 300, "GRU", [512]),
        heads.hierarchical(50_000),
        optimizer="lazy_adam",
    ),
    Model(
        "gru-sampled",
        32,
        35,
        50_000,
        bodies.recurrent(50_000, 300, "GRU", [512]),
        heads.baseline("sampled", 50_000),
    ),
    Model(
        "gru-full",
        32,
        35,
        10_000,
        bodies.recurrent(10_000, 256, "GRU", [512]),
        heads.full(10_000),
    ),
    *(
        Model(
            name,
            8,
            128,
            32_000,
            bodies.transformer(32_000, layers=6, width=512, heads=8),
            heads.full(32_000),
            optimizer=optimizer,
        )
        for name, optimizer in (
            ("transformer-6x512", "adam"),
            ("transformer-6x512-sgd", "sgd"),
        )
    ),
    Model(
        "transformer-hierarchical",
        8,
        128,
        100_000,
        bodies.transformer(100_000, layers=4, width=256, heads=4),
        heads.hierarchical(100_000, "rowwise_adagrad"),
    ),
    Model(
        "transformer-gqa-sampled",
        8,
        128,
        50_000,
        bodies.transformer(50_000, layers=4, width=256, heads=8, kv_heads=2),
        heads.baseline("sampled", 50_000),
    ),
    _word("hierarchical", heads.hierarchical(100_000, "adagrad")),
    _word("full", heads.full(100_000), batch=200),
    _word("sampled", heads.baseline("sampled", 100_000)),
    _word("adaptive", heads.adaptive(100_000), optimizer="lazy_adam"),
    _word("gather", heads.baseline("gather", 100_000), optimizer="sgd"),
    _word(
        "embedding-lookup",
        heads.baseline("embedding_lookup", 100_000),
        optimizer="adagrad",
    ),
    _word(
        "map-fn", heads.baseline("map_fn", 20_000), batch=50, optimizer="sgd"
    ),
    *(
        Model(
            name,
            1_000,
            None,
            100_000,
            bodies.nothing,
            heads.embedding(100_000, 100_000, 128, own),
            optimizer=optimizer,
        )
        for name, own, optimizer in (
            ("embedding-softmax", None, "lazy_adam"),
            ("embedding-softmax-in-place", "rowwise_adagrad", "sgd"),
        )
    ),
    *(
        Model(
            name,
            batch,
            None,
            None,
            bodies.nothing,
            heads.hierarchical(10_000_000, "rowwise_adagrad"),
            width=300,
            optimizer="sgd",
        )
        for name, batch in (("10m-b400", 400), ("10m-b40k", 40_000))
    ),
]

MODELS = {model.name: model for model in _ALL}
