"""Models of other libraries with a hierarchical softmax, as a tree and weights.

Word2vec and fastText have a binary tree and a vector v at each inner node;
one child has the probability sigmoid(v . x) (Mikolov et al., 2013: Distributed
Representations of Words and Phrases and their Compositionality). That is the
softmax of two rows, v and zero, so that the probabilities stay what they were:

    sigmoid(z) = exp(z) / (exp(z) + exp(0))

Neither library has to be installed.
"""

from tf_hsm.converters._converted_model import ConvertedModel
from tf_hsm.converters.fasttext import FastTextModel, from_fasttext
from tf_hsm.converters.gensim import from_gensim

__all__ = [
    "ConvertedModel",
    "FastTextModel",
    "from_fasttext",
    "from_gensim",
]
