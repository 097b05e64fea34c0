"""What `compile` was given, which no public interface of Keras tells.

`model.get_compile_config` returns configs, so that no loss can be told from
another of its class, and raises an error where an object has no config.
`model.loss` is a copy of a list.
"""

import keras


def compiled_with_loss(model, loss):
    """The weights and the metrics that `compile` has for a loss' outputs.

    Args:
      model: a compiled model.
      loss: an object that was given as a loss for one output or several; else
        a model with one output is asked about that.

    Returns:
      Two lists: of what `loss_weights` has for it; and of its metrics, with the
      weighted ones.
    """
    compiled = model._compile_loss
    given = getattr(compiled, "_user_loss", None)
    names = getattr(model, "output_names", None)
    if isinstance(given, dict) and not set(given) <= set(names or []):
        names = sorted(given)
    elif names is None:
        names = range(len(given)) if isinstance(given, (list, tuple)) else [0]
    losses = _per_output(given, names)
    places = [i for i, other in enumerate(losses) if other is loss]
    if not places and len(names) == 1:
        places = [0]
    weights = _per_output(getattr(compiled, "_user_loss_weights", None), names)
    return [weights[i] for i in places], _metrics(model, names, places)


def losses_of_output(model, name):
    """The losses that `compile` has for the output that a layer returned.

    None are known of a model that does not name its outputs: a layer after the
    head may make the output that the loss is for.
    """
    graph = getattr(model, "_functional", None) or model  # of a Sequential
    names = getattr(graph, "output_names", None) or []
    given = getattr(model._compile_loss, "_user_loss", None)
    losses = _per_output(given, names)
    pairs = zip(names, losses, strict=True)
    return [loss for other, loss in pairs if other == name and loss is not None]


def has_loss(model):
    """Whether `compile` has a loss."""
    return model._compile_loss is not None


def metrics_of_output(model, name):
    """The metrics that `compile` has for the output of a layer of this name."""
    names = getattr(model, "output_names", None) or [name]
    if len(names) == 1:
        name = names[0]
    places = [i for i, other in enumerate(names) if other == name]
    return _metrics(model, names, places)


def metrics_perhaps_of_output(model, name):
    """As `metrics_of_output`; all where `compile` names outputs otherwise.

    As it does for a model that returns a dict.
    """
    names = getattr(model, "output_names", None) or [name]
    given = _given_metrics(model)
    keys = {key for some in given if isinstance(some, dict) for key in some}
    if keys <= set(names) and (len(names) == 1 or name in names):
        return metrics_of_output(model, name)
    return _flat(given)


def is_compiled_with_metrics(model):
    """Whether the last `compile` was given metrics; else earlier ones stay."""
    config = model._compile_config.config
    given = (config["metrics"], config["weighted_metrics"])
    return any(metrics is not None for metrics in given)


def compile_without_scaling(model, copy):
    """Compiles a model's copy with no scaling of the loss where it has none.

    Keras forgets `auto_scale_loss=False`.
    """
    scales = [
        isinstance(
            getattr(x, "optimizer", None), keras.optimizers.LossScaleOptimizer
        )
        for x in (model, copy)
    ]
    if scales == [False, True]:
        config = model.get_compile_config()
        copy.compile_from_config({**config, "auto_scale_loss": False})


def _metrics(model, names, places):
    lists = [_per_output(some, names) for some in _given_metrics(model)]
    return _flat([some[i] for some in lists for i in places])


def _given_metrics(model):
    compiled = model._compile_metrics
    attributes = ("_user_metrics", "_user_weighted_metrics")
    return [getattr(compiled, attribute, None) for attribute in attributes]


def _flat(metrics):
    return [one for one in keras.tree.flatten(metrics) if one is not None]


def _per_output(given, names):
    """What `compile` takes, one for all or one each, as a list with each."""
    if isinstance(given, dict):
        return [given.get(name) for name in names]
    if isinstance(given, (list, tuple)) and len(given) == len(names):
        return list(given)
    return [given] * len(names)
