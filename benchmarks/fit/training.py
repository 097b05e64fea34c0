"""Trains one head, and measures it at points of its training."""

import dataclasses
import gc
import time

import keras
import numpy as np

from benchmarks.fit import heads, measures

MARKS = (300, 1000, 3000)
_ANSWERS_AT_ONCE = 500


@dataclasses.dataclass(frozen=True)
class Settings:
    """What makes a run, beside its task.

    Attributes:
      head: one of `heads.NAMES`.
      seed: of the body, the head and the order of the examples.
      steps: the number of training steps; 0 if there are epochs.
      epochs: the number of epochs; 0 if there are steps. The learning rate then
        falls to zero along a cosine.
      batch: examples in a step.
      width: size of an embedding and of the hidden vector.
      rate: the learning rate.
    """

    head: str
    seed: int
    steps: int
    epochs: int
    batch: int
    width: int
    rate: float


def train(task, settings, progress):
    """Returns what a run found, as a dict.

    Args:
      task: a `tasks.Task`.
      settings: the `Settings`.
      progress: a function that takes each point of the curve.

    Returns:
      "tree_seconds", which the layer and its tree took before training, and
      "curve", a list of dicts with "steps", the "cpu_seconds" of training, and
      a value for each of `measures.NAMES`. The seconds exclude validation and
      the making of graphs.
    """
    keras.backend.clear_session()
    gc.collect()
    keras.utils.set_random_seed(settings.seed)
    num_examples = len(task.labels)
    steps_of_epoch = num_examples // settings.batch
    num_steps = settings.steps or settings.epochs * steps_of_epoch
    marks = MARKS
    rate = settings.rate
    if settings.epochs:
        marks = range(steps_of_epoch, num_steps + 1, steps_of_epoch)
        rate = keras.optimizers.schedules.CosineDecay(rate, num_steps)
    contexts, hidden = body(task, settings.width)
    begin = time.process_time()
    head = heads.layer(settings.head, task, settings.seed)
    tree_seconds = time.process_time() - begin
    candidate = heads.attach(settings.head, head, contexts, hidden, rate)
    clock, curve, step = _Clock(), [], 0
    for end in measures.points(num_steps, marks):
        chosen = positions(
            num_examples,
            settings.seed,
            step * settings.batch,
            end * settings.batch,
        )
        candidate.model.fit(
            task.contexts[chosen] + 1,
            task.labels[chosen],
            batch_size=settings.batch,
            shuffle=False,
            verbose=0,
            callbacks=[clock],
        )
        step = end
        curve.append(
            {
                "steps": step,
                "cpu_seconds": clock.cpu_seconds,
                **_measured(candidate.answers, task),
            }
        )
        progress(curve[-1])
    return {"tree_seconds": tree_seconds, "curve": curve}


def positions(num_examples, seed, begin, end):
    """Returns the examples from `begin` to `end` in the order of training.

    Each epoch has all examples once, in an order of its own.
    """
    parts = []
    for epoch in range(begin // num_examples, -(-end // num_examples)):
        first = epoch * num_examples
        order = np.random.default_rng([seed, epoch]).permutation(num_examples)
        parts.append(order[max(begin - first, 0) : end - first])
    return np.concatenate(parts)


class _Clock(keras.callbacks.Callback):
    """The CPU time of training steps.

    The first step makes the graph. The mean time of the other steps replaces
    its time.
    """

    def __init__(self):
        super().__init__()
        self._steps = 0
        self._total = 0.0

    @property
    def cpu_seconds(self):
        return self._total * self._steps / max(self._steps - 1, 1)

    def on_train_batch_begin(self, batch, logs=None):
        self._begin = time.process_time()

    def on_train_batch_end(self, batch, logs=None):
        if self._steps:
            self._total += time.process_time() - self._begin
        self._steps += 1


def body(task, width):
    """Returns the input, ids + 1 where 0 is none, and the hidden vector.

    Args:
      task: the `tasks.Task`.
      width: of an embedding and of the hidden vector.
    """
    length = task.contexts.shape[1]
    contexts = keras.Input([length], dtype="int32")
    embedding = keras.layers.Embedding(
        task.num_classes + 1, width, mask_zero=task.is_bag
    )
    vectors = embedding(contexts)
    if task.is_bag:
        vectors = keras.layers.GlobalAveragePooling1D()(vectors)
    else:
        vectors = keras.layers.Flatten()(vectors)
    return contexts, keras.layers.Dense(width, "tanh")(vectors)


def _measured(answers, task):
    log_probs, best = answers.predict(
        [task.held_out_contexts + 1, task.held_out_labels[:, None]],
        batch_size=_ANSWERS_AT_ONCE,
        verbose=0,
    )
    return measures.of_answers(log_probs[:, 0], best, task.held_out_labels)
