r"""Asks an exported model what comes next. It needs TensorFlow and no more.

bazel run //examples/serving:client -- served_model 3 14 15
bazel run //examples/serving:client -- lm_served import os
"""

import argparse
import json
import math
import pathlib

_UNKNOWN = "<unk>"


def main():
    """Prints the most probable classes after the given tokens."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model", help="folder of the exported model")
    parser.add_argument(
        "tokens",
        nargs="+",
        help="class ids; words, if the model has a vocabulary",
    )
    arguments = parser.parse_args()
    import tensorflow as tf

    extra = pathlib.Path(arguments.model, "assets.extra")
    tf.load_op_library(str(extra / "_tf_hsm_ops.so"))
    model = tf.saved_model.load(arguments.model)

    words, ids = None, arguments.tokens
    if (extra / "vocabulary.json").exists():
        words = json.loads((extra / "vocabulary.json").read_text("utf-8"))
        numbers = {word: number for number, word in enumerate(words)}
        ids = [numbers.get(word, numbers[_UNKNOWN]) for word in ids]
    tokens = tf.constant([list(map(int, ids))])

    answer = model.signatures["serving_default"](tokens=tokens)
    # The first text, after its last token where there is one answer for each.
    log_probs, classes = (
        answer[name][0].numpy() for name in ("log_probs", "classes")
    )
    if log_probs.ndim == 2:
        log_probs, classes = log_probs[-1], classes[-1]
    for log_prob, number in zip(log_probs, classes, strict=True):
        name = repr(words[number]) if words else number
        print(f"{math.exp(log_prob):7.2%}  {name}")


if __name__ == "__main__":
    main()
