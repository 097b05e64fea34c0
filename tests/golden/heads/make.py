"""Makes the files beside it with the tf_hsm at hand.

    PYTHONPATH=. python tests/golden/heads/make.py [CASE ...]

Run it by hand, and only where files of the version that made them need not
load any more: tf_hsm 0.1.0, TensorFlow 2.21.0, Keras 3.15.1. It trains a model
for each case of `cases.py` and writes

    CASE.keras  the model, saved by Keras
    CASE.zip    saved.weights.h5, the weights, saved by Keras; checkpoint.*, a
                tf.train.Checkpoint; export, a folder of tf_hsm.serving.export
                without the op library, for two cases; and arrays.npz

arrays.npz has `data/...`, which the model trains on; `answers/...`, which the
saved model gives; and `after/...`: losses, weights and optimizers' variables
after more training. `tests/layers/golden_test.py` compares them with what the
files give. `answers/sample_of_best` is younger: it was drawn again from the
files when `top_p` became a share of the classes of `top_k`.
"""

import sys

from tests.golden.heads import answers, files
from tests.golden.heads.cases import CASES, make_model
from tests.golden.heads.data import make_data


def make(name):
    """Writes the files of a case."""
    data, model = make_data(name), make_model(name)
    answers.train(name, model, data)
    with files.written(name, model) as arrays:
        arrays |= {f"data/{key}": value for key, value in data.items()}
        arrays |= answers.of_model(name, model, data)
        arrays |= answers.after_training(name, model, data)


if __name__ == "__main__":
    for case in sys.argv[1:] or CASES:
        make(case)
