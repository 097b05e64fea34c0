r"""Reads a text to class ids in files, which training then uses.

    bazel run //:read -- --corpus=$PWD/text8
    bazel run //:read -- --corpus="$PWD/shards/*.gz" --max_classes=100000

Training reads by itself what it finds no files of; this command shows what it
would be given, and does the long part of it before. Files are made once for
each text, and lie in a cache: ~/.cache/tf_hsm/corpora, or below
$XDG_CACHE_HOME.
"""

import resource
import sys
import time

from examples.common import program
from examples.common.progress import duration
from examples.corpora import text_flags

flags = program.Flags()

text_flags.define(flags)
_PROCESSES = flags.define_count(
    "processes",
    None,
    "How many read; by default as many as processors, one for a small text.",
)
_SHOWN = 12


def main():
    """Reads what the flags say; bad input ends in one line and status 1."""
    from examples.corpora import corpus

    begin = time.monotonic()
    try:
        options = text_flags.options(flags.values.flag_values_dict())
        loaded = corpus.load(options, num_processes=_PROCESSES.value)
    except (OSError, ValueError) as error:
        sys.exit(f"error: {error}")
    print(loaded.description())
    shown = (repr(word)[1:-1] for word in loaded.words[:_SHOWN])
    print(f"The most frequent words: {'  '.join(shown)}")
    size = sum(path.stat().st_size for path in loaded.folder.iterdir())
    seconds = duration(time.monotonic() - begin)
    print(f"{size / 1e6:,.1f} MB in {loaded.folder}; {seconds}.")
    own, others = (
        resource.getrusage(who).ru_maxrss / 1e6
        for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
    )
    print(
        f"Memory at the peak: {own:.2f} GB, and in each process that read for "
        f"it at most {others:.2f} GB."
        if others > 0.01  # of those that read
        else f"Memory at the peak: {own:.2f} GB."
    )


if __name__ == "__main__":
    program.run(main, flags, tensorflow=False)
