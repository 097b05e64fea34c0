"""Counts what workers send in a step of a head over their replicas."""

import json
import multiprocessing
import os

from examples.distributed import servers

_WARM_UP = 3  # The first steps make graphs, and open connections.
_TIMEOUT = 300  # seconds


def measure(sizes, kind, count, repetitions):
    """Makes steps on `count` workers of this machine.

    Args:
      sizes: the `Sizes`.
      kind: how labels are drawn, of `steps.LABELS`.
      count: the number of workers.
      repetitions: the number of steps.

    Returns:
      "bytes", which all workers send in a step, with all headers; and
      "planned_bytes", which the plan expects, with as many examples for the
      shards of other workers as there are.
    """
    from benchmarks.distribute import network

    addresses = [f"127.0.0.1:{port}" for port in servers.free_ports(count)]
    spawn = multiprocessing.get_context("spawn")
    barrier = spawn.Barrier(count + 1, timeout=_TIMEOUT)
    planned = spawn.Value("d")
    workers = [
        spawn.Process(
            target=_train,
            args=(i, addresses, sizes, kind, repetitions, barrier, planned),
            daemon=True,
        )
        for i in range(count)
    ]
    for worker in workers:
        worker.start()
    seen = []
    for _ in range(2):
        barrier.wait()
        seen.append(network.sent_bytes())
        barrier.wait()
    for worker in workers:
        worker.terminate()  # TensorFlow would wait for the other workers.
    return {
        "bytes": (seen[1] - seen[0]) / repetitions,
        "planned_bytes": planned.value,
    }


def _train(index, addresses, sizes, kind, repetitions, barrier, planned):
    """Makes the steps of a worker, between the barriers."""
    os.environ["TF_CONFIG"] = json.dumps(
        {
            "cluster": {"worker": addresses},
            "task": {"type": "worker", "index": index},
        }
    )
    import numpy as np
    import tensorflow as tf

    from benchmarks.distribute import steps
    from tf_hsm import distribute
    from tf_hsm.layers import HierarchicalSoftmax

    strategy = tf.distribute.MultiWorkerMirroredStrategy()
    sizes, count = steps.Sizes(*sizes), len(addresses)
    tree = sizes.tree
    plan = distribute.plan(
        tree,
        replicas=count,
        batch=sizes.batch,
        width=sizes.width,
        counts=steps.counts_of(kind, tree),
    )
    with strategy.scope():
        head = HierarchicalSoftmax(
            tree,
            devices="replicas",
            plan=plan,
            optimizer="rowwise_adagrad",
        )
        head.build([None, sizes.width])
    step = tf.function(
        lambda *batch: strategy.run(lambda *b: _step(head, *b), batch)
    )
    rng = np.random.default_rng(index)
    size = sizes.batch // count
    inputs = tf.constant(rng.normal(size=(size, sizes.width)), tf.float32)
    number = _WARM_UP + repetitions + 1
    labels = steps.draw_labels(kind, plan, number, size * count)
    labels = labels.reshape(number, count, size)
    planned.value = _planned_bytes(plan, labels)
    for done, of_step in enumerate(labels[:, index]):
        if done in (_WARM_UP, _WARM_UP + repetitions):
            barrier.wait()
            barrier.wait()
        step(inputs, tf.constant(of_step))


def _planned_bytes(plan, labels):
    """The bytes of a step with labels `[steps, workers, n]`, in the mean."""
    import numpy as np

    from benchmarks.distribute import steps

    number, count, size = labels.shape
    shards = steps.shards_of(plan, labels)
    leave = (shards != np.arange(count)[:, np.newaxis]).sum() / number
    planned = size * (count - 1)
    cost = plan.cost
    return cost.wire_bytes + (leave - planned) * cost.wire_bytes_per_example


def _step(head, inputs, labels):
    import tensorflow as tf

    with tf.GradientTape() as tape:
        tape.watch(inputs)
        loss = head.loss(labels, head(inputs))
    return tape.gradient(loss, inputs)
