"""The flags that every command has, and its report."""

import json
import pathlib

from absl import flags

from benchmarks.common import define, machine, units

_THREADS = define.count("threads", None, "CPUs to use; all by default.")
_JSON = flags.DEFINE_string("json", None, "Also writes all figures here.")


def threads():
    """The number of CPUs to use, no more than there are."""
    return min(_THREADS.value or machine.num_cpus(), machine.num_cpus())


class Figures:
    """What was measured on which machine; with --json, also as a file."""

    def __init__(self, threads, **facts):
        """Prints the machine; `facts` are kept beside it."""
        self._content = {"machine": machine.facts(threads), **facts}
        print(_machine_text(self._content["machine"]), flush=True)

    def add(self, kind, entry):
        """Appends to the list called `kind`.

        The file is written each time, so that a long run loses nothing.
        """
        self._content.setdefault(kind, []).append(entry)
        if _JSON.value:
            text = json.dumps(self._content, indent=2)
            pathlib.Path(_JSON.value).write_text(text + "\n")


def _machine_text(machine):
    """One line about the machine."""
    return (
        f"{machine['cpu']}, {machine['threads']} of {machine['cpus']} CPUs, "
        f"kernels for {machine['isa']}, "
        f"{units.of_bytes(machine['memory_bytes'])}, "
        f"TensorFlow {machine['tensorflow']}, "
        f"load average {machine['load_average']:.1f}"
    )
