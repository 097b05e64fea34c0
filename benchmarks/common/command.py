"""The flags that every command has, and its report."""

import json
import pathlib

from absl import flags

from benchmarks.common import machine, report

_THREADS = flags.DEFINE_integer(
    "threads", None, "CPUs to use; all by default.", lower_bound=1
)
_JSON = flags.DEFINE_string("json", None, "Also writes all figures here.")


def threads():
    """The number of CPUs to use, no more than there are."""
    return min(_THREADS.value or machine.num_cpus(), machine.num_cpus())


class Report:
    """What was measured on which machine; with --json, also as a file."""

    def __init__(self, threads, **facts):
        """Prints the machine; `facts` are kept beside it."""
        self._content = {"machine": machine.facts(threads), **facts}
        print(report.machine_text(self._content["machine"]), flush=True)

    def add(self, kind, entry):
        """Appends to the list called `kind`.

        The file is written each time, so that a long run loses nothing.
        """
        self._content.setdefault(kind, []).append(entry)
        if _JSON.value:
            text = json.dumps(self._content, indent=2)
            pathlib.Path(_JSON.value).write_text(text + "\n")
