"""What the commands of the examples have in common: start, help and end."""

import contextlib
import functools
import inspect
import os
import signal
import sys

from absl import flags

flags.disclaim_key_flags()  # A flag belongs to the module that asks for it.

_HELP = {"-h", "-help", "--help", "--helpshort", "--helpfull"}


class Flags:
    """The functions of `absl.flags`, for the flags of one command.

    Attributes:
        values: its flags, an `absl.flags.FlagValues`. Other commands that the
            process has loaded may have flags of the same names.
    """

    def __init__(self):
        """Begins without a flag."""
        self.values = flags.FlagValues()

    def define_count(self, name, default, description):
        """Defines a flag whose value is an integer of at least 1."""
        return self.DEFINE_integer(name, default, description, lower_bound=1)

    def __getattr__(self, name):
        """A function of `absl.flags`, such as `DEFINE_string`."""
        return functools.partial(getattr(flags, name), flag_values=self.values)


def run(main, command_flags, argv=None, interrupted=sys.exit):
    """Reads the flags and runs `main()`, the function of a command.

    A bad flag ends in one line and status 1, Ctrl-C in one line and status 130;
    the text of a `KeyboardInterrupt` becomes part of that line. A reader of the
    output that wants no more of it, such as `head`, ends the command without a
    word.

    Args:
        main: a function of the module whose docstring begins the help.
        command_flags: the `Flags`; set anew.
        argv: name of the program and its arguments; `sys.argv` by default.
        interrupted: ends the process with a status after Ctrl-C: `sys.exit`, or
            `end_at_once`.
    """
    argv = sys.argv if argv is None else argv
    try:
        if _HELP.intersection(argv[1:]):
            print(inspect.getdoc(inspect.getmodule(main)))
            print(command_flags.values.get_help())
        else:
            _read_flags(command_flags.values, argv)
            # TensorFlow's lines are shown to those who ask for them.
            os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
            main()
        sys.stdout.flush()
    except KeyboardInterrupt as interrupt:
        print(f"\nInterrupted. {interrupt}".rstrip(), file=sys.stderr)
        interrupted(130)
    except BrokenPipeError:
        # What is left in the buffer has nowhere to go when Python ends.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)


def end_at_once(status):
    """Ends the process without waiting for what TensorFlow still does.

    It may do that on servers, and wait for them though they have ended.
    """
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)


def _read_flags(values, argv):
    """Sets the flags anew; a bad one ends the process."""
    try:
        for name in values:
            values[name].unparse()
        rest = values(argv)[1:]
        if rest:
            raise flags.Error(f"Not a flag: {rest[0]}")
    except flags.Error as error:
        sys.exit(f"error: {error}\n--help lists the flags.")


@contextlib.contextmanager
def interruption():
    """Lets the block end by itself after Ctrl-C, so that it can save.

    A second Ctrl-C raises KeyboardInterrupt.

    Yields:
        A function without arguments: whether Ctrl-C was pressed.
    """
    pressed = []

    def note(signal_number, frame):
        if pressed:
            raise KeyboardInterrupt
        pressed.append(signal_number)
        # A print that the signal has interrupted may hold sys.stderr.
        os.write(2, b"\nInterrupted: saving. Ctrl-C again ends at once.\n")

    earlier = signal.getsignal(signal.SIGINT)
    if earlier is not signal.SIG_IGN:  # as in the background of a shell
        signal.signal(signal.SIGINT, note)
    try:
        yield lambda: bool(pressed)
    finally:
        signal.signal(signal.SIGINT, earlier)
