r"""Writes a text of published size and known entropy.

bazel run //examples/corpora/synthetic:write -- --folder=/tmp/corpora
bazel run //examples/corpora/synthetic:write -- --folder=/tmp/corpora \
    --corpus=synthetic:1bw:0.01

The last lines say what perplexity a model of the text can reach. README.md
beside this file says more.
"""

import json
import sys

from examples.common import program
from examples.corpora.synthetic import texts as synthetic

flags = program.Flags()

_CORPUS = flags.DEFINE_string(
    "corpus",
    "synthetic:text8",
    f"synthetic: and one of {', '.join(synthetic.NAMES)}, and a fraction if "
    "wanted, as in synthetic:text8:0.01.",
)
_FOLDER = flags.DEFINE_string("folder", "", "Where to write it; needed.")
_SEED = flags.DEFINE_integer("seed", 1, "Seed of the text.", lower_bound=0)
_THREADS = flags.DEFINE_integer(
    "threads", 0, "Threads that draw words; 0 for all.", lower_bound=0
)


def main():
    """Runs what the flags say; bad input ends in one line and status 1."""
    if not _FOLDER.value:
        sys.exit("error: --folder=FOLDER says where to write the text.")
    try:
        written = synthetic.write(
            _CORPUS.value.removeprefix("synthetic:"),
            _FOLDER.value,
            _SEED.value,
            _THREADS.value,
        )
    except (OSError, ValueError) as error:
        sys.exit(f"error: {error}")
    report = json.loads(written.report.read_text())
    print(f"{written.path}, with {written.report.name} beside it:")
    print(
        f"{'':8}{'words':>16}{'lines':>14}{'distinct':>12}{'perplexity':>12}"
        f"{'of unigrams':>12}"
    )
    for name, part in report["parts"].items():
        print(
            f"{name:8}{part['words']:16,}{part['lines']:14,}"
            f"{part['distinct_words']:12,}{part['perplexity']:12.2f}"
            f"{part['unigram_perplexity']:12.1f}"
        )
    entropy = report["entropy"]
    print(
        f"No model's perplexity is below {entropy['perplexity']:.2f} in "
        f"expectation: {entropy['bits_per_token']:.3f} bits per token."
    )


if __name__ == "__main__":
    program.run(main, flags, tensorflow=False)
