"""Keras layers: heads, which take the place of the last `Dense` layer.

docs/features.md has a table of what each head can do.

All heads take `kernel_regularizer`, `bias_regularizer`, `kernel_constraint` and
`bias_constraint`, as Keras' layers do. There may be millions of rows, and a
step costs its paths only, so they are for the rows that a batch touches: the
rows of the groups on the paths of its labels; where a softmax is sampled, the
rows of its labels and of the drawn classes.

- A regularizer is called with these rows, `[U, width]` of a kernel or `[U]` of
  a bias, each once however many labels touch it. `layer.losses` has the result:
  with Keras' L1 and L2, the penalty on all rows less that on the other ones.
  It takes a copy of the touched rows, and a second gradient of them.
- A constraint is applied by the optimizer of the model, after its step: one of
  `tf_hsm.optimizers` applies it to these rows, and so it must be one of each
  row by itself, `MaxNorm(2.0, axis=1)`, say. (`NonNeg()` is.) Keras' own
  optimizers apply it to all rows at every step.
- With an optimizer of the layer's own, in place, both are a ValueError.
"""

from tf_hsm.layers.adaptive_softmax import AdaptiveSoftmax
from tf_hsm.layers.embedding_softmax import EmbeddingSoftmax
from tf_hsm.layers.hierarchical_softmax import HierarchicalSoftmax
from tf_hsm.layers.label_tree import LabelTree
from tf_hsm.layers.sampled_softmax import SampledSoftmax

__all__ = [
    "AdaptiveSoftmax",
    "EmbeddingSoftmax",
    "HierarchicalSoftmax",
    "LabelTree",
    "SampledSoftmax",
]
