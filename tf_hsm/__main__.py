"""The command line: `python -m tf_hsm tree --help`."""

import sys

from tf_hsm.cli import tree_command

if __name__ == "__main__":
    sys.exit(tree_command.main())
