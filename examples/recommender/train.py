r"""Learns which item of a shop comes next in a session, among a million.

    bazel run //examples/recommender:train
    bazel run //examples/recommender:train -- --items=50000 --head=full

data.py beside this file makes the sessions and says what can be learned.
"""

import pathlib
import shutil
import time

import keras
import numpy as np
import tensorflow as tf

import tf_hsm
from examples.common import program
from examples.recommender import data

flags = program.Flags()

_ITEMS = flags.define_count("items", 1_000_000, "Items of the shop.")
_SESSIONS = flags.define_count("sessions", 1_000_000, "Training sessions.")
_TEST = flags.define_count("test_sessions", 500, "Sessions of each test.")
_HEAD = flags.DEFINE_enum(
    "head",
    "hierarchical",
    ["hierarchical", "sampled", "full"],
    "hierarchical: a tree of related items. sampled: a softmax that is trained "
    "on drawn items. full: all items at every step.",
)
_WIDTH = flags.define_count("width", 64, "Size of an item's vector.")
_BATCH_SIZE = flags.define_count("batch_size", 128, "Sessions of a step.")
_SAMPLED = flags.define_count("num_sampled", 2048, "Items that sampled draws.")
_RATE = flags.DEFINE_float("learning_rate", 0.002, "Rate of lazy Adam.")
_STEPS = flags.define_count("steps", 1_000_000_000, "Steps at most.")
_MINUTES = flags.DEFINE_float("minutes", 5, "Minutes of training at most.")
_NEW_ITEMS = flags.define_count("new_items", 500, "Items launched later.")
_K = flags.define_count("k", 10, "Items that are recommended.")
_SEED = flags.DEFINE_integer("seed", 1, "Seed of all numbers.", lower_bound=0)
_SAVE = flags.DEFINE_string(
    "save", "", "The folder to export to; none if empty."
)


def main():
    """Trains, evaluates, grows by new items, and exports."""
    keras.utils.set_random_seed(_SEED.value)
    shop = data.Shop(_ITEMS.value, _NEW_ITEMS.value, _SEED.value)
    sessions = shop.sessions(_SESSIONS.value, seed=_SEED.value)
    test = shop.sessions(_TEST.value, seed=_SEED.value + 1)
    print(
        f"{shop.num_items:,} items. The best possible recall@{_K.value} is "
        f"about {shop.ceiling(_K.value):.1%}."
    )
    start = time.perf_counter()
    head = make_head(shop.num_items, sessions)
    print(f"The head was made in {time.perf_counter() - start:.0f} s.")
    model = make_model(shop.num_items, head)
    fit(model, sessions)
    print(evaluate(model, test))
    print(latency(model, test))
    if _HEAD.value == "hierarchical" and shop.num_new:
        model = launch(model, shop)
    if _SAVE.value:
        export(model, pathlib.Path(_SAVE.value), _K.value)
        print(f"Wrote {_SAVE.value}")


def make_head(num_items, sessions):
    """Returns the head that the flags name."""
    layers, kind = tf_hsm.layers, _HEAD.value
    if kind == "hierarchical":
        # Items that occur after the same items share groups.
        tree = tf_hsm.Tree.from_data(
            sessions[:, 1:], sessions[:, :-1], num_classes=num_items
        )
        return layers.HierarchicalSoftmax(tree, name="head")
    counts = np.bincount(sessions[:, 1:].ravel(), minlength=num_items)
    if kind == "full":
        tree = tf_hsm.Tree.flat(num_items).with_counts(counts)
        return layers.HierarchicalSoftmax(tree, name="head")
    return layers.SampledSoftmax(
        num_items,
        num_sampled=_SAMPLED.value,
        sampler="counts",
        counts=counts,
        name="head",
    )


def make_model(num_items, head):
    """Returns a GRU over the vectors of a session's items, and its head."""
    model = keras.Sequential(
        [
            keras.Input([None], dtype="int32", name="session"),
            keras.layers.Embedding(num_items, _WIDTH.value, name="items"),
            keras.layers.GRU(_WIDTH.value, return_sequences=True),
            head,
        ]
    )
    # Lazy Adam touches only the items of a batch.
    optimizer = tf_hsm.optimizers.LazyAdam(_RATE.value)
    model.compile(optimizer, head.loss)
    return model


def dataset(sessions):
    """Returns batches of sessions without their last items, and the labels."""
    batches = tf.data.Dataset.from_tensor_slices(sessions)
    batches = batches.shuffle(100_000, seed=_SEED.value).repeat()
    batches = batches.batch(_BATCH_SIZE.value)
    batches = batches.map(lambda x: (x[:, :-1], x[:, 1:]))
    return batches.prefetch(4)


class StopInTime(keras.callbacks.Callback):
    """Stops training after some minutes, and measures the steps."""

    def __init__(self, minutes):
        """Takes the minutes."""
        super().__init__()
        self._minutes = minutes
        self.times = []

    def on_train_batch_end(self, batch, logs=None):
        """Stops where the minutes are over."""
        self.times.append(time.perf_counter())
        if self.times[-1] - self.times[0] > 60 * self._minutes:
            self.model.stop_training = True


def fit(model, sessions):
    """Trains until the steps or the minutes are over."""
    stop = StopInTime(_MINUTES.value)
    history = model.fit(
        dataset(sessions),
        steps_per_epoch=_STEPS.value,
        callbacks=[stop],
        shuffle=False,
        verbose=0,
    ).history
    # The first step includes the tracing.
    seconds, count = stop.times[-1] - stop.times[0], len(stop.times) - 1
    print(
        f"{count + 1:,} steps in {seconds:.0f} s, "
        f"{1e3 * seconds / max(count, 1):.1f} ms each. "
        f"Mean loss {history['loss'][0]:.3f}."
    )


def evaluate(model, sessions, only=lambda labels: labels >= 0):
    """Returns a line: how well the last items of sessions are predicted.

    Args:
        model: the model.
        sessions: `[n, length]`.
        only: from labels `[n]` to which of them count.
    """
    k = _K.value
    head = model.layers[-1]
    metrics = [
        tf_hsm.metrics.RecallAtK(head, k),
        tf_hsm.metrics.NDCGAtK(head, k),
        tf_hsm.metrics.MeanReciprocalRank(head, 100),
    ]
    sessions = sessions[only(sessions[:, -1])]
    for batch in np.array_split(sessions, -(-len(sessions) // 100)):
        vectors = hidden(model, batch[:, :-1])
        for metric in metrics:
            metric.update_state(batch[:, -1], vectors)
    figures = [f"{m.name} {float(m.result()):.3f}" for m in metrics]
    return f"{len(sessions):,} sessions: {', '.join(figures)}."


def hidden(model, sessions):
    """Returns the vectors `[n, width]` at the end of sessions."""
    return model(sessions)[:, -1]


def latency(model, sessions):
    """Returns a line: the time to find the best items, and those in stock."""
    head = model.layers[-1]
    x = hidden(model, sessions[:50, :-1])
    stock = np.random.default_rng(0).permutation(head.num_classes)
    lines = []
    for name, allowed in (("", None), (" among 1,000 in stock", stock[:1000])):
        seconds = []
        for i in range(len(x)):
            start = time.perf_counter()
            found = head.top_k(x[i : i + 1], _K.value, allowed=allowed)
            classes = found.classes.numpy()
            seconds.append(time.perf_counter() - start)
            assert allowed is None or np.isin(classes, [*allowed, -1]).all()
        lines.append(f"top-{_K.value}{name} {1e3 * np.median(seconds):.2f} ms")
    return f"One session: {', '.join(lines)}."


def launch(model, shop):
    """Returns the model with the new items, trained on some sessions more."""
    sessions = shop.sessions(_SESSIONS.value // 10, seed=7, launched=True)
    test = shop.sessions(20 * _TEST.value, seed=8, launched=True)
    tree = model.layers[-1].tree
    # Each new item goes into the group of a similar old one.
    tree = tree.grow(shop.num_new, near=shop.similar_old_items())
    model = tf_hsm.grow(model, tree, embeddings=["items"])
    print(f"{shop.num_new:,} new items:")

    def is_new(labels):
        return labels >= shop.num_items

    print(f"  at first, {evaluate(model, test, is_new)}")
    # The new items are rare: a pass over a tenth of the sessions.
    model.fit(
        dataset(sessions),
        steps_per_epoch=max(len(sessions) // _BATCH_SIZE.value, 1),
        shuffle=False,
        verbose=0,
    )
    print(f"  after a pass, {evaluate(model, test, is_new)}")
    print(f"  old items, {evaluate(model, test[: _TEST.value])}")
    return model


def export(model, path, k):
    """Writes a SavedModel that recommends items in stock, for client.py.

    Args:
        model: a Sequential model that ends with a head.
        path: a `pathlib.Path`, the folder.
        k: how many items it recommends.
    """
    head = model.layers[-1]

    @tf.function(
        input_signature=[
            tf.TensorSpec([None, None], tf.int32, name="session"),
            tf.TensorSpec([None], tf.int64, name="in_stock"),
        ]
    )
    def recommend(session, in_stock):
        hidden = model(session)[:, -1]
        return head.top_k(hidden, k, allowed=in_stock)._asdict()

    module = tf.Module()
    module.layers_of = model.layers
    module.num_items = tf.Variable(head.num_classes, trainable=False)
    module.recommend = recommend
    tf.saved_model.save(module, str(path))
    # The ops of the head are not TensorFlow's own.
    (path / "assets.extra").mkdir(exist_ok=True)
    shutil.copy(tf_hsm.serving.op_library_path(), path / "assets.extra")


if __name__ == "__main__":
    program.run(main, flags)
