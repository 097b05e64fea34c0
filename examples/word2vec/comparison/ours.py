"""Trains our word vectors, in a process of its own."""

import time

from examples.common import program
from examples.word2vec.comparison import files


def main(spec):
    """Trains as //:word2vec does."""
    program.import_tensorflow()
    import tensorflow as tf

    import tf_hsm
    from examples.word2vec import run, settings

    tf.config.threading.set_intra_op_parallelism_threads(spec["threads"])
    chosen = settings.Settings(**spec["settings"])
    job = run.prepare(chosen, f"{spec['folder']}/run-{chosen.seed}")
    begin = time.monotonic()
    job.train()
    seconds = time.monotonic() - begin
    vectors = job.model.vectors.numpy()
    inputs, labels = files.read_held_out(spec["folder"], vectors)
    losses = tf_hsm.hierarchical_softmax_loss(
        job.model.weights, None, labels, inputs, job.model.tree
    )
    files.write_result(spec, seconds, losses.numpy(), vectors)


if __name__ == "__main__":
    main(files.read_spec())
