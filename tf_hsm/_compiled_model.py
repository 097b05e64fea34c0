"""What a model was compiled with that does not fit a head: refused.

It is checked in the first step of `fit` or `evaluate`, before anything moved.
"""

import warnings

import keras
import tensorflow as tf

from tf_hsm.runtime import private_compile, private_keras, private_tensorflow


class ReadsHead:
    """Marks metrics that find the head on `y_pred`."""


def check_loss(model, loss, head, updates):
    """Checks what stands beside a head's loss in `compile`.

    Args:
      model: the compiled model.
      loss: the loss object that the model calls.
      head: the head whose output it has.
      updates: whether the head makes a step of its own.

    Raises:
      ValueError: a metric of the output is not one of `tf_hsm.metrics`; or the
        head makes a step of its own and the loss has a weight other than 1.
    """
    weights, metrics = private_compile.compiled_with_loss(model, loss)
    weights = [w for w in weights if w not in (None, 1)]
    if updates and head.trainable and weights:
        raise ValueError(
            f"{head.name}: its own optimizer takes the loss as it is, but "
            f"compile has loss_weights={weights} for it; leave them out, or "
            "the layer's optimizer"
        )
    wrong = [m for m in metrics if not isinstance(m, ReadsHead)]
    if wrong:
        raise ValueError(_metrics_of_inputs(model, head, wrong))


def _metrics_of_inputs(model, head, wrong):
    """The error for metrics that cannot score a head's output."""
    return (
        f"{head.name}: compile has the metrics {_names(wrong)}, which would "
        "compare labels with the layer's inputs; use those of tf_hsm.metrics, "
        "for an accuracy weighted_metrics=[tf_hsm.metrics.TopKAccuracy(1)]"
        f"{_unless_kept(model)}"
    )


def check_untold_training(model, head):
    """Checks that losses without a step of the head are not losses of `fit`.

    Raises:
      ValueError: they are; the model's `call` has no argument `training`, and
        the head makes a step of its own in training alone.
    """
    if private_tensorflow.has_tape() and not (
        private_keras.takes_training(model)
    ):
        raise ValueError(
            f"{head.name}: its own optimizer makes a step in a call with "
            f"training=True, but {type(model).__name__}.call takes no argument "
            "training, so that it would never make any; give it one, "
            "call(self, x, training=False)"
        )


def check_in_place(head):
    """Checks that the model trains as a step in place of the head can follow.

    Raises:
      ValueError: there are several replicas; or the model's optimizer clips,
        averages, accumulates, scales the loss, or decays the head's rows.
    """
    replicas = tf.distribute.get_strategy().num_replicas_in_sync
    if replicas > 1 and not head._on_replicas:
        raise ValueError(
            f"{head.name}: its own optimizer updates one copy of the weights, "
            f"but there are {replicas} replicas; leave out the layer's "
            "optimizer, or give a HierarchicalSoftmax or AdaptiveSoftmax "
            'devices="replicas", which spreads its rows over the replicas'
        )
    if replicas > 1 and tf.distribute.in_cross_replica_context():
        raise ValueError(
            f"{head.name}: training needs the replicas; call the layer in the "
            "function that strategy.run takes"
        )
    optimizer = private_keras.optimizer_of_model()
    for name in (
        "gradient_accumulation_steps",
        "loss_scale_factor",
        "clipnorm",
        "global_clipnorm",
        "clipvalue",
        "use_ema",
    ):
        if getattr(optimizer, name, None):
            raise ValueError(
                f"{head.name}: its own optimizer makes its steps in place, "
                f"where {name} of the model's optimizer has no effect; leave "
                "that out, or the layer's optimizer"
            )
    if isinstance(optimizer, keras.optimizers.LossScaleOptimizer):
        raise ValueError(
            f"{head.name}: its own optimizer takes the loss as it is, but the "
            "model's is a LossScaleOptimizer; compile with auto_scale_loss="
            "False, or leave out the layer's optimizer"
        )
    variables = head.row_variables()
    if optimizer is not None and private_keras.decays(optimizer, variables):
        raise ValueError(
            f"{head.name}: its own optimizer makes its steps in place, where "
            "weight_decay of the model's optimizer has no effect; say that "
            "it is not meant by optimizer.exclude_from_weight_decay("
            f"{head.name}.non_trainable_variables) before compile, or leave "
            "it out"
        )


def num_classes_asked_for(model, head):
    """How many of the most probable classes the metrics of `compile` want."""
    metrics = private_compile.metrics_perhaps_of_output(model, head.name)
    return max(
        [m.k for m in metrics if isinstance(m, ReadsHead) and hasattr(m, "k")],
        default=0,
    )


def check_output(model, head, training):
    """Checks the loss and the metrics of a head's output.

    A loss of the user's may be made from `tf_hsm.losses`. In `predict` neither
    is used, so nothing is checked.

    Args:
      model: the compiled model.
      head: the head that has been called without labels.
      training: whether the call is for training.

    Raises:
      ValueError: the loss or, in training, a metric is one of Keras'.
    """
    if not training and private_keras.trainer_step_of(model) is None:
        return
    losses = private_compile.losses_of_output(model, head.name)
    names = _names(filter(_is_of_keras, losses))
    if names:
        raise ValueError(
            f"{head.name}: compile has the loss {names[0]}, which would "
            "compare labels with the layer's inputs; use the layer's own, "
            "loss=head.loss"
        )
    metrics = private_compile.metrics_of_output(model, head.name)
    wrong = [m for m in metrics if training and _is_of_keras(m)]
    if wrong:
        raise ValueError(_metrics_of_inputs(model, head, wrong))


def check_endpoint(model, head):
    """Checks the metrics of the losses that a head returns.

    A function or metric of the user's may be made for them.

    Raises:
      ValueError: a metric is one of Keras'.
    """
    metrics = private_compile.metrics_of_output(model, head.name)
    names = _names(filter(_is_of_keras, metrics))
    if names:
        raise ValueError(
            f"{head.name}: compile has the metrics {names}, which would "
            "compare labels with the losses that the layer returns; use those "
            "of tf_hsm.metrics, for an accuracy metrics=["
            f"tf_hsm.metrics.TopKAccuracy(1)]{_unless_kept(model)}"
        )


def warn_of_weights(model, head):
    """Warns if Keras drops the sample weights of losses that a head returns.

    Keras gives `sample_weight` to the loss of `compile` alone.
    """
    step = private_keras.trainer_step_of(model)
    if step is None or not step.is_of_keras or step.sample_weight is None:
        return
    if private_compile.has_loss(model):  # of another output, perhaps
        return
    if type(model).compute_loss not in _COMPUTE_LOSS:  # It may use weights.
        return
    warnings.warn(
        f"{head.name}: sample_weight and class_weight of fit and evaluate have "
        "no effect on the losses that head(inputs, labels) adds to the model, "
        "since Keras gives them to the loss of compile alone. Make the weights "
        "an input of the model, head(inputs, labels, weights), or use "
        "compile(loss=head.loss)",
        stacklevel=2,
    )


_COMPUTE_LOSS = (keras.Model.compute_loss, keras.Sequential.compute_loss)


def _unless_kept(model):
    """What else helps where the metrics come from an earlier `compile`."""
    if private_compile.is_compiled_with_metrics(model):
        return ""
    return ", or metrics=[]: Keras keeps those of an earlier compile"


def _is_of_keras(given):
    if isinstance(given, str):
        return True
    if isinstance(given, keras.metrics.Metric):
        kind = type(given)
        if kind is keras.metrics.MeanMetricWrapper:  # of a function
            return False
    elif isinstance(given, keras.losses.Loss):
        kind = type(given)
    else:
        kind = given
    return getattr(kind, "__module__", "").split(".")[0] == "keras"


def _names(metrics):
    return [
        m if isinstance(m, str) else getattr(m, "name", None) or m.__name__
        for m in metrics
    ]
