"""The parser of the command line, and of its commands."""

import argparse


class Parser(argparse.ArgumentParser):
    """A parser whose help begins with the description; errors are a line."""

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
    """Adds a command to what `add_subparsers` returned; returns its parser."""
    return commands.add_parser(
        name,
        help=text,
        description=f"{text[0].upper()}{text[1:]}.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )


def add_flags(group, flags, settings):
    """Adds flags to a parser or a group of it.

    Args:
      group: where to.
      flags: the help of each flag, "name" or "name=METAVAR".
      settings: what else `add_argument` takes, by name.
    """
    for flag, text in flags.items():
        name, _, metavar = flag.partition("=")
        more = {"metavar": metavar} if metavar else {}
        more |= settings.get(name, {})
        group.add_argument(f"--{name}", help=text, **more)
