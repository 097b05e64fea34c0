"""What the commands of the examples have in common: start, help and end."""

import contextlib
import functools
import inspect
import os
import signal
import sys
import textwrap

from absl import flags

_HELP = {"-h", "-help", "--help", "--helpshort", "--helpfull"}
_QUIET = "3"
_WIDTH = 80


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


def run(main, command_flags, argv=None, tensorflow=True, interrupted=sys.exit):
    """Reads the flags and runs `main()`, the function of a command.

    A bad flag ends in one line and status 1, Ctrl-C in one line and status 130;
    the text of a `KeyboardInterrupt` becomes part of that line. A reader of the
    output that wants no more of it, such as `head`, ends the command without a
    word.

    Args:
        main: a function of the module whose docstring begins the help.
        command_flags: the `Flags`; set anew.
        argv: name of the program and its arguments; `sys.argv` by default.
        tensorflow: whether the command needs it, which takes seconds.
        interrupted: ends the process with a status after Ctrl-C: `sys.exit`, or
            `end_at_once`.
    """
    argv = sys.argv if argv is None else argv
    try:
        if _HELP.intersection(argv[1:]):
            print(help_text(inspect.getmodule(main), command_flags))
        else:
            _read_flags(command_flags.values, argv)
            if tensorflow:
                import_tensorflow()
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


def help_text(module, command_flags):
    """What the module's command does, and its flags in their order there."""
    lines = [inspect.getdoc(module), "", "Flags, with their defaults:"]
    for name in command_flags.values:
        flag = command_flags.values[name]
        default = flag.default_as_str or ""
        lines.append(f"\n  --{flag.name}={default.strip(chr(39))}")
        words = flag.help
        choices = getattr(flag.parser, "enum_values", None)
        if choices:
            words = words.partition(">: ")[2] + f" One of {', '.join(choices)}."
        lines.append(
            textwrap.fill(
                " ".join(words.split()),
                _WIDTH,
                initial_indent=" " * 6,
                subsequent_indent=" " * 6,
            )
        )
    return "\n".join(lines)


@contextlib.contextmanager
def resumable():
    """Ends the program where training is interrupted or its loss diverges."""
    try:
        yield
    except KeyboardInterrupt as interrupt:
        raise KeyboardInterrupt(
            f"{interrupt} The same command with --resume continues.".lstrip()
        ) from None
    except FloatingPointError as error:
        sys.exit(f"\nerror: {error}")


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


def import_tensorflow():
    """Imports TensorFlow; its start-up lines are shown to those who ask.

    They ask with a TF_CPP_MIN_LOG_LEVEL below 3, which hides what TensorFlow
    says itself; Python's errors are shown in any case. TensorFlow writes some
    of the lines before it reads the level.
    """
    level = os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", _QUIET)
    with _no_stderr() if level == _QUIET else contextlib.nullcontext():
        import tensorflow  # noqa: F401


@contextlib.contextmanager
def _no_stderr():
    """Drops what the process writes to its standard error, in C++ too."""
    sys.stderr.flush()
    original = os.dup(2)
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 2)
    os.close(nowhere)
    try:
        yield
    finally:
        sys.stderr.flush()
        os.dup2(original, 2)
        os.close(original)
