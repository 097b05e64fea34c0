"""Counts what a step sends to servers and back, and times it."""

import statistics
import time

import tensorflow as tf

from benchmarks.common import timing
from benchmarks.distribute import devices, network, steps
from examples.distributed import servers
from tf_hsm import distribute

# The first steps send functions, and open connections.
_WARM_UP = 4
# Until the last acknowledgements are sent, in seconds.
_SETTLE = 0.03
_FLOAT, _LABEL = 4, 8


def measure(sizes, count, repetitions):
    """Makes steps of a head on servers, and of one variable here, in turns.

    Returns:
      "one" and "on_servers": a result of `devices.compared`, "bytes" and
      "samples_bytes"; the latter also with "bound" and "bytes_x_bound".
    """
    sizes = steps.Sizes(*sizes)
    tree = sizes.tree
    with servers.Servers(count, num_trainers=0) as started:
        cluster = distribute.connect(started.addresses)
        plan = distribute.plan(tree, cluster.devices())
        functions = {
            name: steps.make_step(
                steps.make_head(tree, sizes.width, spread), sizes
            )
            for name, spread in (("one", None), ("on_servers", plan))
        }
        labels = steps.draw_labels(
            "uniform", plan, _WARM_UP + repetitions, sizes.batch
        )
        results = _take_turns(functions, sizes.inputs(), labels)
    sharded = results["on_servers"]
    sharded["bound"] = bound(plan, sizes, labels[_WARM_UP:])
    sharded["bytes_x_bound"] = sharded["bytes"] / sharded["bound"]
    return results


def _take_turns(functions, inputs, labels):
    """Makes steps in turns, the first ones to warm up."""
    seconds = {name: [] for name in functions}
    sent = {name: [] for name in functions}
    for row in labels:
        batch = tf.constant(row, tf.int64)
        for name, step in functions.items():
            before = network.sent_bytes()
            seconds[name].append(timing.seconds_of(_fetch, step, inputs, batch))
            time.sleep(_SETTLE)
            sent[name].append(network.sent_bytes() - before)
    return {
        name: devices.compared(
            seconds[name][_WARM_UP:], seconds["one"][_WARM_UP:]
        )
        | {
            "bytes": statistics.median(sent[name][_WARM_UP:]),
            "samples_bytes": sent[name][_WARM_UP:],
        }
        for name in functions
    }


def _fetch(step, *args):
    for result in step(*args):
        result.numpy()


def bound(plan, sizes, labels):
    """The least that must be sent in a step, in bytes, in the mean.

    For each example whose label is not in the top: the inputs and their
    gradient, the label and the loss.
    """
    is_below = steps.units_of(plan, labels) >= plan.layout.num_leaf_units
    below = is_below.sum(1).mean()
    return float(below) * (2 * _FLOAT * sizes.width + _LABEL + _FLOAT)
