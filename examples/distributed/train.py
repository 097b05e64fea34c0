r"""Trains a language model whose head is spread over servers.

    bazel run //examples/distributed:train -- --servers=2 --trainers=2

Starts everything on this machine: servers, which hold the variables; trainers,
each of which takes steps without waiting for the others; and this process,
which hands out the text. Each is `python -m tf_hsm cluster_task`.

Saves to --checkpoints after every --save_every steps. The same command goes on
from there after a kill or an error. Lost trainers are started again.

The servers have no authentication, as TensorFlow's protocol has none, and their
ports are open on every interface: not for a machine that strangers can reach.
"""

import os
import sys

from examples.common import program

flags = program.Flags()

flags.define_count("servers", 2, "Tasks that hold the variables.")
flags.define_count("trainers", 2, "Tasks that compute the steps.")
flags.DEFINE_string(
    "cluster",
    "",
    "Servers and trainers that run already, as JSON. None are started then: "
    '{"ps": ["host1:2222"], "worker": ["host2:2222"], "chief": '
    '["host3:2222"]}. The chief is this process; the others must reach it.',
)
flags.DEFINE_string(
    "checkpoints",
    "distributed_model",
    "Folder of the checkpoints. Every server writes there, so several "
    "machines need a shared folder.",
)
flags.DEFINE_string(
    "corpus", "stdlib", "The text, as for `bazel run //:train`."
)
flags.DEFINE_integer(
    "branching", 256, "Children of a node of the Huffman tree.", lower_bound=2
)
flags.define_count("units", 128, "Width of the embedding and of the LSTM.")
flags.define_count("batch_size", 64, "Texts in a step.")
flags.define_count("steps", 32, "Tokens of each text in a step.")
flags.define_count("epochs", 1, "Passes over the text.")
flags.define_count("save_every", 100, "Steps between two checkpoints.")
flags.DEFINE_integer(
    "held_out",
    10,
    "Batches of held-out text for the perplexity at each checkpoint; 0: none.",
    lower_bound=0,
)
flags.DEFINE_float(
    "learning_rate",
    0.004,
    "Rate of LazyAdam, for body and head.",
    lower_bound=0,
)
flags.DEFINE_integer("seed", 1, "Seed of the order of the text.", lower_bound=0)


def main():
    """Runs what the flags say; bad input ends in one line and status 1."""
    from examples.distributed import run

    options = flags.values
    try:
        run.run(options, os.path.abspath(options.checkpoints))
    except (OSError, ValueError) as error:
        print(f"error: {error}", file=sys.stderr)
        program.end_at_once(1)
    except KeyboardInterrupt:
        raise KeyboardInterrupt("The same command goes on.") from None
    program.end_at_once(0)


if __name__ == "__main__":
    program.run(main, flags, interrupted=program.end_at_once)
