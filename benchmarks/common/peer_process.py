"""Runs each implementation in a process of its own, one at a time.

The libraries then never meet, each may have a Python of its own, and turns can
be taken between them. Parent and child exchange lines of JSON: the first one
tells the child what to prepare, and it answers with facts; each further one
asks for one measurement.

A child runs the class `Implementation` of one module:

    Implementation(spec)      prepares everything; `spec` is a dict
    .facts                    a dict, with at least "version"
    .run(phase, turn)         measures once: {"seconds", "pairs"}, where pairs
                              of an example and its label were worked on, and
                              whatever else the module says
"""

import importlib
import json
import os
import pathlib
import subprocess
import sys
import time

_ROOT = pathlib.Path(__file__).parents[2]


class Process:
    """An implementation in another process, waiting for its turns."""

    def __init__(self, module, spec, python=sys.executable):
        """Starts it and waits until it is prepared.

        Args:
          module: the name of a module below `benchmarks`, like "peers.ours".
          spec: what that module needs, a dict that JSON can hold; "threads"
            is the number of CPUs that the process may use.
          python: the interpreter.

        Raises:
          ModuleNotFoundError: the interpreter lacks the library.
        """
        self._module = module
        self._process = subprocess.Popen(
            [python, "-m", "benchmarks.common.peer_process", module],
            cwd=_ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.facts = self._ask(spec)
        if "missing" in self.facts:
            self.close()
            raise ModuleNotFoundError(name=self.facts["missing"])

    def run(self, phase, turn):
        """Measures once.

        Returns:
          What `Implementation.run` does, and "other_cpus": how many CPUs other
          processes kept busy meanwhile, on average.
        """
        return self._ask([phase, turn])

    def close(self):
        """Ends the process."""
        self._process.communicate()

    def _ask(self, message):
        self._process.stdin.write(json.dumps(message) + "\n")
        self._process.stdin.flush()
        answer = self._process.stdout.readline()
        if not answer:
            raise RuntimeError(
                f"{self._module} ended with {self._process.wait()}"
            )
        return json.loads(answer)


def _serve(module):
    # Whatever a library prints goes to standard error.
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)

    def answer(message):
        answers.write(json.dumps(message) + "\n")
        answers.flush()

    spec = json.loads(sys.stdin.readline())
    # Before any library starts its threads.
    cpus = sorted(os.sched_getaffinity(0))
    os.sched_setaffinity(0, cpus[: spec["threads"]])
    try:
        implementation = importlib.import_module(f"benchmarks.{module}")
    except ModuleNotFoundError as error:
        answer({"missing": error.name})
        return
    implementation = implementation.Implementation(spec)
    answer(implementation.facts)
    for line in sys.stdin:
        start, others = time.perf_counter(), _others_seconds()
        sample = implementation.run(*json.loads(line))
        others = _others_seconds() - others
        sample["other_cpus"] = others / (time.perf_counter() - start)
        answer(sample)


def _others_seconds():
    """CPU seconds of all processes but this one, in ticks of 10 ms."""
    with open("/proc/stat") as file:
        user, nice, system, _, _, *interrupts = file.readline().split()[1:9]
    ticks = sum(map(int, [user, nice, system, *interrupts]))
    return ticks / os.sysconf("SC_CLK_TCK") - time.process_time()


if __name__ == "__main__":
    _serve(sys.argv[1])
