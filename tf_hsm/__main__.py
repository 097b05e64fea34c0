"""The command line: `python -m tf_hsm --help`."""

import sys

from tf_hsm.cli import program

if __name__ == "__main__":
    sys.exit(program.main())
