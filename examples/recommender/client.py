r"""Asks an exported recommender what comes next. It needs TensorFlow alone.

bazel run //examples/recommender:client -- $PWD/shop 3 14 15
bazel run //examples/recommender:client -- $PWD/shop 3 --in_stock=9,26,53
"""

import argparse
import pathlib


def main(argv=None):
    """Prints the items that most probably follow a session."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model", help="folder of the exported model")
    parser.add_argument("session", nargs="+", type=int, help="items, in order")
    parser.add_argument(
        "--in_stock", help="the items to recommend; all by default"
    )
    arguments = parser.parse_args(argv)
    import numpy as np
    import tensorflow as tf

    folder = pathlib.Path(arguments.model)
    tf.load_op_library(str(folder / "assets.extra" / "_tf_hsm_ops.so"))
    model = tf.saved_model.load(str(folder))
    if arguments.in_stock is None:
        in_stock = np.arange(int(model.num_items))
    else:
        in_stock = np.array(arguments.in_stock.split(","), np.int64)
    found = model.recommend(
        tf.constant([arguments.session], tf.int32), tf.constant(in_stock)
    )
    for log_prob, item in zip(
        found["log_probs"][0].numpy(), found["classes"][0].numpy(), strict=True
    ):
        if item >= 0:
            print(f"{np.exp(log_prob):8.3%}  {item}")


if __name__ == "__main__":
    main()
