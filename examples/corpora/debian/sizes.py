r"""Counts the text that installed Debian packages bring along.

bazel run //examples/corpora/debian:sizes
bazel run //examples/corpora/debian:sizes -- --corpus=debian:gcide

Words are divided by white space. README.md beside this file has the table of
all packages.
"""

import sys

from examples.common import program
from examples.corpora.debian import documents as debian
from examples.corpora.debian import packages

flags = program.Flags()

_CORPUS = flags.DEFINE_multi_string(
    "corpus",
    [f"debian:{name}" for name in packages.PACKAGES],
    f"debian: and one of {', '.join(debian.NAMES)}; may be given many times.",
)
_ROOT = flags.DEFINE_string(
    "root", "/", "Where packages are installed, or unpacked by dpkg-deb -x."
)


def main():
    """Runs what the flags say; bad input ends in one line and status 1."""
    print(f"{'':14}{'documents':>10}{'words':>13}{'bytes':>13}")
    for corpus in _CORPUS.value:
        name = corpus.removeprefix("debian:")
        documents = words = size = 0
        try:
            for _, text in debian.documents(name, _ROOT.value):
                documents += 1
                words += len(text.split())
                size += len(text.encode())
        except FileNotFoundError as error:
            print(error)
        except (OSError, ValueError) as error:
            sys.exit(f"error: {error}")
        else:
            print(f"{name:14}{documents:10,}{words:13,}{size:13,}")


if __name__ == "__main__":
    program.run(main, flags, tensorflow=False)
