"""The command line: `python -m tf_hsm tree --help`."""

import sys

from tf_hsm import _tree_command

if __name__ == "__main__":
    sys.exit(_tree_command.main())
