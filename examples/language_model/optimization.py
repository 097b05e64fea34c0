"""The optimizers of a model, and how their rate falls."""

import itertools

import keras

import tf_hsm
from examples.language_model.settings import PLATEAU

_CLASSES = {
    "lazy_adam": tf_hsm.optimizers.LazyAdam,
    "adagrad": tf_hsm.optimizers.Adagrad,
    "rowwise_adagrad": tf_hsm.optimizers.RowwiseAdagrad,
    "sgd": tf_hsm.optimizers.SGD,
}


def make(settings, learning_rate):
    """An optimizer as a `settings.Settings` says.

    Args:
        settings: the rule, and the global norm to which gradients are clipped.
        learning_rate: a number or a schedule.
    """
    options = {}
    if settings.optimizer in ("adagrad", "rowwise_adagrad"):
        options["initial_accumulator_value"] = settings.initial_accumulator
    if settings.clipnorm:
        options["global_clipnorm"] = settings.clipnorm
    return _CLASSES[settings.optimizer](learning_rate, **options)


def rate(settings, num_steps):
    """The learning rate: a schedule, or the number that it begins with."""
    if settings.decay == "cosine":
        return keras.optimizers.schedules.CosineDecay(
            settings.learning_rate, num_steps, alpha=0.05
        )
    return settings.learning_rate


def set_rate(model, value):
    """Gives the optimizers of a model, the head's own too, another rate."""
    head = model.get_layer("head")
    for optimizer in (model.optimizer, getattr(head, "optimizer", None)):
        if optimizer is not None:
            optimizer.learning_rate = value


def begin_epoch(model, settings, history):
    """Sets the rate of the next epoch, if it depends on those before.

    Args:
        model: the compiled model.
        settings: a `settings.Settings`.
        history: One dict for each epoch before.
    """
    if settings.decay == "plateau":
        set_rate(model, plateau_rate(settings.learning_rate, history))


def plateau_rate(learning_rate, history):
    """The rate, halved for each epoch that was hardly better than the last."""
    perplexities = [entry["validation_perplexity"] for entry in history]
    halvings = sum(
        now > (1 - PLATEAU) * before
        for before, now in itertools.pairwise(perplexities)
    )
    return learning_rate * 0.5**halvings
