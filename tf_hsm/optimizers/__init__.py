"""Keras optimizers whose step costs O(touched rows).

A hierarchical loss touches a few hundred rows of millions, and its gradients
are `tf.IndexedSlices`. Keras' optimizers, plain SGD aside, make tensors of the
whole variable from them, and never sum rows that repeat. These read and write
the touched rows of a variable and of its slots and nothing else; for dense
gradients they do what Keras' do, so that one optimizer serves a whole model.

All of them:

- take the step on rows in one op, in place, with the exclusive locks of
  variable and slots; but not with the momentum of SGD, `amsgrad` or XLA, and on
  GPUs for rows of at most 10,240 numbers (5,120 of float64). The op gives the
  same bits whatever the number of threads;
- sum repeated rows first. `clipnorm`, `global_clipnorm` and `clipvalue` then
  see what they would see of the dense equivalent, and on several replicas the
  sum of their gradients, where Keras clips the gradient of each replica;
- apply `weight_decay` to the touched rows, `w -= learning_rate * weight_decay *
  w` before the step, and to all rows where the gradient is dense. That is the
  decoupled decay of `keras.optimizers.AdamW` (Loshchilov and Hutter, "Decoupled
  weight decay regularization", 2019), but a row decays in its own steps alone.
  `exclude_from_weight_decay` holds for both. The config of an optimizer does
  not have the exclusions, as in Keras; the config of a layer with an optimizer
  of its own has those by `var_names`. A row whose gradient is zero but given
  counts as touched;
- compute in float32 for variables of 16 bits, with slots in float32, and round
  once, where the variable is written. float64 stays float64;
- apply a variable's constraint to the touched rows after the step. It must be
  one of each row by itself, as `MaxNorm(2.0, axis=1)` and `NonNeg()` are;
- raise ValueError at the first step with a sparse gradient where `use_ema`,
  `gradient_accumulation_steps` or a constraint of rows together asks for work
  on all rows. For dense gradients these and constraints are Keras';
- have `slots(variable)`, the list of the variables with one variable's state.

SGD (without momentum), Adagrad, RowwiseAdagrad, RMSprop, LazyAdam (without
`amsgrad`) and Lion can also make a step in place
(`tf_hsm.hierarchical_softmax_train_step`), with `weight_decay` and without.
Layers take them as "sgd", "adagrad", "rowwise_adagrad", "rmsprop", "lazy_adam"
and "lion" too. On GPUs, a step in place by RMSprop has no `momentum` and is not
`centered`.
"""

from tf_hsm.optimizers.adagrad import Adagrad
from tf_hsm.optimizers.lazy_adam import LazyAdam
from tf_hsm.optimizers.lion import Lion
from tf_hsm.optimizers.loss_scale_optimizer import LossScaleOptimizer
from tf_hsm.optimizers.rmsprop import RMSprop
from tf_hsm.optimizers.rowwise_adagrad import RowwiseAdagrad
from tf_hsm.optimizers.sgd import SGD

__all__ = [
    "SGD",
    "Adagrad",
    "LazyAdam",
    "Lion",
    "LossScaleOptimizer",
    "RMSprop",
    "RowwiseAdagrad",
]
