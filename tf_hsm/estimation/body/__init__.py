"""What makes the inputs of a head: Keras models, and layers without values."""

from tf_hsm.estimation.body.body import Body, dense, of
from tf_hsm.estimation.body.made import of_text, recurrent, transformer

__all__ = ["Body", "dense", "of", "of_text", "recurrent", "transformer"]
