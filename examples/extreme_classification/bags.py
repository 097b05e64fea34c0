"""Bags of features: ragged tensors, and the layer that sums their vectors."""

import keras
import tensorflow as tf


def of(examples, chosen=None):
    """Returns the features of examples and the values: two ragged tensors.

    Args:
      examples: `tf_hsm.datasets.ExtremeData`.
      chosen: the numbers of the examples; None: all.
    """
    bags = [
        tf.RaggedTensor.from_row_splits(values, examples.feature_starts)
        for values in (examples.feature_ids, examples.feature_values)
    ]
    return bags if chosen is None else [tf.gather(x, chosen) for x in bags]


def sums(vectors, bags):
    """Returns the sum `[B, width]` of the vectors of each bag, times values.

    Args:
      vectors: `[features, width]`.
      bags: features and values, ragged `[B, None]` each.
    """
    ids, values = bags
    rows = tf.gather(vectors, ids.flat_values)
    rows *= values.flat_values[:, tf.newaxis]
    return tf.math.unsorted_segment_sum(rows, ids.value_rowids(), ids.nrows())


@keras.saving.register_keras_serializable("extreme_classification")
class BagOfFeatures(keras.layers.Embedding):
    """The sum of the vectors of a bag of features, times their values.

    Args:
      input_dim: how many features exist.
      output_dim: the width of a vector.
      dropout: the share of the features that a training step leaves out.
      options: of `keras.layers.Embedding`.
    """

    def __init__(self, input_dim, output_dim, dropout=0.0, **options):
        super().__init__(input_dim, output_dim, **options)
        self.dropout = dropout

    def call(self, inputs, training=False):
        """From features and values, ragged `[B, None]`, to `[B, width]`."""
        ids, values = inputs
        if training and self.dropout:
            values = values.with_flat_values(
                tf.nn.dropout(values.flat_values, self.dropout)
            )
        return sums(self.embeddings.value, (ids, values))

    def compute_output_spec(self, inputs, training=False):
        """Tells Keras the shape of the sums."""
        return keras.KerasTensor([inputs[0].shape[0], self.output_dim])

    def get_config(self):
        """The arguments of the constructor."""
        return {**super().get_config(), "dropout": self.dropout}
