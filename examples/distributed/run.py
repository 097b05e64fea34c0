"""One run: servers, model, checkpoints, and steps until the end."""

import contextlib
import json
import math
import time

import numpy as np
import tensorflow as tf

import tf_hsm
from examples.corpora import corpus
from examples.distributed.asynchronous import Asynchronous
from examples.distributed.servers import Servers
from examples.language_model import batches

_KEPT = 2  # checkpoints


def run(options, folder):
    """Trains as the options say.

    Args:
        options: the values of the flags of `train.py`.
        folder: of the checkpoints; a run there goes on.

    Raises:
        tf_hsm.distribute.LostServerError: a server has ended. The same call in
            a new process goes on from the last checkpoint.
        OSError: the text cannot be read.
        ValueError: it is too short.
    """
    print(f"Reading the corpus, {options.corpus} ...", flush=True)
    text = corpus.load(corpus.Options(options.corpus))
    window = options.batch_size, options.steps
    train = batches.Windows(text.train, *window, "training text")
    held_out = batches.Windows(text.valid, *window, "held-out text")
    held_out = held_out.stacked(range(min(options.held_out, len(held_out))))
    tree = tf_hsm.Tree.huffman(text.counts, branching=options.branching)
    # TensorFlow writes pages about each loss, which the run says in a line.
    tf.get_logger().setLevel("CRITICAL")
    with _addresses(options) as addresses:
        cluster = tf_hsm.distribute.connect(addresses, coordinator=True)
        with cluster.explained():
            model = Asynchronous(
                tree, cluster, options.units, options.learning_rate, window
            )
            _train(model, options, folder, train, held_out)


@contextlib.contextmanager
def _addresses(options):
    """Yields the addresses of the cluster, or of processes started here."""
    if options.cluster:
        yield json.loads(options.cluster)
        return
    with Servers(options.servers, options.trainers) as servers:
        yield servers.addresses


def _train(model, options, folder, train, held_out):
    """Steps until the last epoch ends, with a checkpoint after each round."""
    num_windows = len(train)
    end = options.epochs * num_windows
    done = tf.Variable(0, dtype=tf.int64)  # windows that were given to trainers
    manager = tf.train.CheckpointManager(
        tf.train.Checkpoint(model=model.checkpoint(), done=done),
        folder,
        max_to_keep=_KEPT,
    )
    if manager.restore_or_initialize():
        print(f"going on from step {int(done):,}", flush=True)
    while int(done) < end:
        begin = time.monotonic()
        windows = _round(int(done), num_windows, options)
        tokens, labels = train.stacked(windows)
        loss = model.train(tokens, labels)
        seconds = time.monotonic() - begin
        done.assign_add(len(windows))
        # One line for each round, whoever reads it.
        line = (
            f"step {int(done):,} of {end:,}, {int(model.steps):,} applied: "
            f"perplexity {math.exp(loss):.1f}"
        )
        if options.held_out:
            line += f", held out {math.exp(model.evaluate(*held_out)):.1f}"
        print(f"{line}; {tokens.size / seconds:,.0f} words/s", flush=True)
        manager.save()
        print(f"saved step {int(done):,}", flush=True)


def _round(done, num_windows, options):
    """The windows up to the next checkpoint, in another order every epoch."""
    epoch, first = divmod(done, num_windows)
    order = np.random.default_rng([options.seed, epoch]).permutation(
        num_windows
    )
    return order[first : first + options.save_every]
