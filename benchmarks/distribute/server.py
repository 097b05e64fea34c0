"""A task of a cluster, which has the ops of tf_hsm, until its input ends."""

import sys

import tensorflow as tf

import tf_hsm  # noqa: F401


def main(port, index):
    """Serves the task of the job ps."""
    server = tf.distribute.Server(
        {"ps": {int(index): f"localhost:{port}"}},
        job_name="ps",
        task_index=int(index),
    )
    print(server.target, flush=True)
    sys.stdin.read()


if __name__ == "__main__":
    main(*sys.argv[1:])
