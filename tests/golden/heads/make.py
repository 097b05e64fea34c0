"""Makes the files beside it with the tf_hsm at hand, or checks them.

    PYTHONPATH=. python tests/golden/heads/make.py [CASE ...]
    PYTHONPATH=. python tests/golden/heads/make.py --check [CASE ...]

Run the first command by hand, and only where files of the version that made
them need not load any more: tf_hsm 0.1.0, TensorFlow 2.21.0, Keras 3.15.1. It
trains a model for each case of `cases.py` and writes

    CASE.keras  the model, saved by Keras
    CASE.zip    saved.weights.h5, the weights, saved by Keras; checkpoint.*, a
                tf.train.Checkpoint; export, a folder of tf_hsm.serving.export
                without the op library, for two cases; and arrays.npz

arrays.npz has `data/...`, which the model trains on; `answers/...`, which the
saved model gives; and `after/...`: losses, weights and optimizers' variables
after more training.

The second command loads each file and compares all arrays with arrays.npz. It
exits with 1 unless all bits are equal. Run it on the machine that wrote the
files, since other processors round differently.
"""

import argparse
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


def results(name, kind, data):
    """Returns the arrays that a file of a case gives, without the data.

    Args:
        name: That of the case.
        kind: "export", or a key of `files.LOADERS`.
        data: From `data_of`.
    """
    if kind == "export":
        return answers.of_export(name, files.export(name), data)
    model = files.LOADERS[kind](name)
    return {
        **answers.of_model(name, model, data),
        **answers.after_training(name, model, data),
    }


def kinds_of(name):
    """Returns the kinds of files that a case has."""
    exports = ["export"] if name in files.EXPORTED else []
    return [*files.LOADERS, *exports]


def data_of(arrays):
    """Returns the data among recorded arrays."""
    return {
        key.removeprefix("data/"): value
        for key, value in arrays.items()
        if key.startswith("data/")
    }


def expected(arrays, kind):
    """Returns the recorded arrays that a file of a kind gives."""
    # An export has no other answers.
    exported = ("top_k/", "threshold/", "log_prob", "sample")
    others = ("answers/log_probs", "answers/sample_of_best")
    prefixes = ("answers/", "after/")
    if kind == "export":
        prefixes = tuple(f"answers/{name}" for name in exported)
        arrays = {k: v for k, v in arrays.items() if k not in others}
    return {k: v for k, v in arrays.items() if k.startswith(prefixes)}


def check(name):
    """Prints which arrays of a case differ; returns whether none does."""
    arrays = files.recorded(name)
    all_same = True
    for kind in kinds_of(name):
        found = results(name, kind, data_of(arrays))
        wanted = expected(arrays, kind)
        keys = sorted(wanted.keys() | found.keys())
        others = [k for k in keys if _bits(wanted, k) != _bits(found, k)]
        all_same = all_same and not others
        text = f"DIFFERENT {', '.join(others)}" if others else "equal bits"
        print(f"{name} {kind}: {len(keys)} arrays, {text}", flush=True)
    return all_same


def _bits(arrays, key):
    array = arrays.get(key)
    return key in arrays and (array.dtype, array.shape, array.tobytes())


def main():
    """Writes or checks the files."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--check", action="store_true")
    parser.add_argument("cases", nargs="*", metavar="CASE")
    options = parser.parse_args()
    names = options.cases or list(CASES)
    if options.check:
        are_same = [check(name) for name in names]
        sys.exit(not all(are_same))
    for name in names:
        make(name)


if __name__ == "__main__":
    main()
