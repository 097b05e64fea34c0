"""The check that labels are classes, before anything is looked up by them."""

import tensorflow as tf

from tf_hsm.runtime import arguments, replicas


def check_labels(labels, num_classes, name, of_all):
    """Returns labels `[B]`, or fails with the sentence of the ops.

    Args:
      labels: integers.
      num_classes: how many classes there are.
      name: of the argument.
      of_all: whether all replicas call this function. An error of one replica
        is then an error of all, so that no replica waits for another one whose
        step has ended.
    """
    wrong = tf.logical_or(labels < 0, labels >= num_classes)
    # The one more is for a batch without labels.
    position = tf.argmax(tf.concat([wrong, [True]], 0))
    value = tf.concat([labels, [0]], 0)[position]
    is_wrong, replica = tf.reduce_any(wrong), ""
    found = [tf.cast(x, tf.int64) for x in (is_wrong, position, value)]
    found = replicas.of_all_workers(tf.stack(found)) if of_all else None
    if found is not None:
        first = tf.argmax(found[:, 0])
        is_wrong, position, value = tf.unstack(found[first])
        is_wrong = is_wrong > 0
        replica = tf.strings.join([" of replica ", tf.strings.as_string(first)])
    message = tf.strings.join(
        [
            f"{name}[",
            tf.strings.as_string(position),
            "] = ",
            tf.strings.as_string(value),
            replica,
            f" is outside [0, {num_classes}), the tree's classes",
        ]
    )
    assertion = tf.debugging.Assert(tf.logical_not(is_wrong), [message])
    return arguments.checked(labels, assertion)
