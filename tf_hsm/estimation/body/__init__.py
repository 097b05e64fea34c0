"""What makes the inputs of a head: Keras models, and layers without values."""

from tf_hsm.estimation.body.body import Body, of
from tf_hsm.estimation.body.made import (
    dense,
    embedding,
    recurrent,
    transformer,
)

__all__ = ["Body", "dense", "embedding", "of", "recurrent", "transformer"]
