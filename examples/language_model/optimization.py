"""The optimizers of a model, and how their rate falls."""

import itertools

import keras
import tensorflow as tf

import tf_hsm
from examples.language_model.settings import PLATEAU

_CLASSES = {
    "lazy_adam": tf_hsm.optimizers.LazyAdam,
    "adagrad": tf_hsm.optimizers.Adagrad,
    "rowwise_adagrad": tf_hsm.optimizers.RowwiseAdagrad,
    "sgd": tf_hsm.optimizers.SGD,
}


@keras.saving.register_keras_serializable("language_model")
class Halving(keras.optimizers.schedules.LearningRateSchedule):
    """A rate that is halved after each epoch from one on.

    Args:
        learning_rate: the rate at first.
        steps_per_epoch: steps.
        decay_from: the first epoch, from 1 on, after which it is halved.
    """

    def __init__(self, learning_rate, steps_per_epoch, decay_from):
        """See the class."""
        self._config = {
            "learning_rate": learning_rate,
            "steps_per_epoch": steps_per_epoch,
            "decay_from": decay_from,
        }

    def __call__(self, step):
        """The rate of a step, from 0 on."""
        epoch = 1 + tf.cast(step, tf.int64) // self._config["steps_per_epoch"]
        halvings = tf.maximum(epoch - self._config["decay_from"], 0)
        return self._config["learning_rate"] * 0.5 ** tf.cast(
            halvings, tf.float32
        )

    def get_config(self):
        """The arguments of the constructor."""
        return dict(self._config)


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
    if settings.decay == "halve":
        return Halving(
            settings.learning_rate,
            num_steps // settings.epochs,
            settings.decay_from,
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
        history: one dict per validation; those that end an epoch count.
    """
    if settings.decay == "plateau":
        set_rate(model, plateau_rate(settings.learning_rate, history))


def plateau_rate(learning_rate, history):
    """The rate, halved for each epoch that was hardly better than the last."""
    perplexities = [
        entry["validation_perplexity"]
        for entry in history
        if entry["ends_epoch"]
    ]
    halvings = sum(
        now > (1 - PLATEAU) * before
        for before, now in itertools.pairwise(perplexities)
    )
    return learning_rate * 0.5**halvings
