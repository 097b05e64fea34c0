"""The parser of the command line, and what its commands have in common."""

import argparse


class Parser(argparse.ArgumentParser):
    """Says what a command does first, and what is wrong in one line."""

    def format_help(self):
        """Returns the help, whose first line is the description."""
        description, self.description = self.description, None
        try:
            return f"{description}\n\n{super().format_help()}"
        finally:
            self.description = description

    def error(self, message):
        """Ends the process with one line and status 2."""
        self.exit(2, f"{self.prog}: {message}; see {self.prog} --help\n")


def add_command(commands, name, text):
    """Adds a command to what `add_subparsers` has returned.

    Args:
      commands: of the program, or of a command with commands.
      name: of the command.
      text: what it does, for the help.

    Returns:
      Its parser.
    """
    return commands.add_parser(
        name,
        help=text,
        description=f"{text[0].upper()}{text[1:]}.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
