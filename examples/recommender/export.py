"""Writes a trained recommender for servers; client.py asks it."""

import shutil

import tensorflow as tf

import tf_hsm


def write(model, path, k):
    """Writes a SavedModel that recommends items in stock.

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
