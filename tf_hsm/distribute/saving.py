"""Checkpoints to which each worker of a strategy writes its own rows."""

import os
import tempfile

import tensorflow as tf

from tf_hsm import _checks
from tf_hsm.distribute import slices
from tf_hsm.runtime import private_saving, replicas


def save(checkpoint, path, strategy, *, max_to_keep=None) -> str:
    """Writes a checkpoint of a head over the workers of a strategy.

    All workers must call this function, and need access to one folder. Each
    worker writes its own rows and slots. One worker writes everything else, and
    joins the parts. The checkpoint appears at `path` when it is complete.

    >>> saved = tf.train.Checkpoint(
    ...     body=body, head=tf_hsm.distribute.checkpoint(head))
    >>> tf_hsm.distribute.save(saved, f"checkpoints/{step}", strategy)
    >>> saved.restore(tf.train.latest_checkpoint("checkpoints"))

    `restore` reads the checkpoint on any number of workers, on the replicas of
    one process, and on one device, with the same bits.

    Args:
      checkpoint: a `tf.train.Checkpoint`.
      path: the path of the new checkpoint, without a suffix.
      strategy: the strategy of the head.
      max_to_keep: how many checkpoints to keep in the folder, at least 1; None:
        all.

    Returns:
      The path.

    Raises:
      ValueError: `max_to_keep` is not an integer of at least 1.
      RuntimeError: another worker could not write its part; the message names
        the worker's replica.
    """
    if max_to_keep is not None:
        max_to_keep = _checks.check_int("max_to_keep", max_to_keep, 1)
    path = os.fspath(path)
    checkpoint.save_counter.assign_add(1)
    if not replicas.are_of_processes(strategy):
        checkpoint.write(path)
        _note(path, max_to_keep)
        return path
    # A barrier: all workers are here.
    flags, first = replicas.gathered(strategy, True)
    num_local = len(strategy.extended.worker_devices)
    mine, main = first // num_local, 0
    parts = [f"{path}_parts/{i}" for i in range(flags.size // num_local)]

    def write():
        tf.io.gfile.makedirs(f"{path}_parts")
        _remove(parts[mine])  # left by a save that was killed
        if mine == main:
            with slices.written(True):
                checkpoint.write(parts[mine])
            return
        # To read a variable may take a collective of all workers.
        with tempfile.TemporaryDirectory() as folder, slices.written(False):
            checkpoint.write(f"{folder}/rest")
        _write_slices(checkpoint, parts[mine])

    def join():
        if mine == main:
            wrote = [p for p in parts if tf.io.gfile.exists(f"{p}.index")]
            tf.raw_ops.MergeV2Checkpoints(
                checkpoint_prefixes=wrote, destination_prefix=path
            )
            _note(path, max_to_keep)

    for do in (write, join):
        _together(strategy, do, path)
    return path


def _together(strategy, function, path):
    """Calls a function on all workers; raises on all if it raises on one."""
    error = None
    try:
        function()
    except Exception as caught:
        error = caught
    failed, _ = replicas.gathered(strategy, error is not None)
    if error is None and failed.any():
        error = RuntimeError(
            f"the worker of replica {failed.argmax()} could not write its part "
            f"of the checkpoint {path}; its error says why"
        )
    if error is not None:
        error.is_of_all_workers = True  # See `workers_explained`.
        raise error


def _write_slices(checkpoint, path):
    """Writes the slices of this process, and nothing else."""
    pieces = [
        (matrix.key, text, variable.read_value_no_copy())
        for matrix in tf.train.TrackableView(checkpoint).descendants()
        if isinstance(matrix, slices.Slices)
        for variable, text in matrix.slices()
    ]
    if not pieces:
        return
    names, texts, tensors = zip(*pieces, strict=True)
    with tf.device("CPU:0"):
        tf.raw_ops.SaveV2(
            prefix=path,
            tensor_names=names,
            shape_and_slices=texts,
            tensors=tensors,
        )


def _note(path, max_to_keep):
    """Makes a checkpoint the latest one; removes old checkpoints."""
    folder = os.path.dirname(path) or "."
    state = tf.train.get_checkpoint_state(folder)
    others = list(state.all_model_checkpoint_paths) if state else []
    paths = [*(other for other in others if other != path), path]
    first = max(0, len(paths) - max_to_keep) if max_to_keep else 0
    private_saving.note_latest(folder, path, paths[first:])
    for old in paths[:first]:
        _remove(old)


def _remove(path):
    """Removes the files of a checkpoint, if there are any."""
    for file in tf.io.gfile.glob([f"{path}.index", f"{path}.data-*"]):
        tf.io.gfile.remove(file)
