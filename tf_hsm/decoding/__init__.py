"""Sequences of classes from a model with a head, one class after the other.

`beam_search` looks for the most probable sequences, a `Sampler` draws them.
Both call the model as a function of one step, in the manner of Keras' recurrent
cells:

    hidden, state = step(classes, state)

- classes `[B]`, int64, the last class of each of B sequences;
- state, any nest of tensors whose first axis is the sequences: the states of a
  recurrent layer, a window of the last classes, a cache of keys and values. A
  new one has the shapes and types of the old one; `()` for none;
- hidden `[B, width]`, the inputs of the head.

A `Trie` restricts either to the IDs of items: paths of codes that exist.

`read_prompts` gives the state after prompts of unequal lengths.

All work eagerly and within a `tf.function`, and so in a SavedModel.
"""

from tf_hsm.decoding._beam_search import beam_search
from tf_hsm.decoding._prompts import read_prompts
from tf_hsm.decoding._sampler import Sampler
from tf_hsm.decoding._sequences import Sequences
from tf_hsm.decoding._trie import Trie

__all__ = ["Sampler", "Sequences", "Trie", "beam_search", "read_prompts"]
