"""Lets each allocation of the ops fail, one at a time.

    bazel run //tests/faults:allocations -- --injections=100000

For random right calls of every raw op: the first allocation fails, then the
second, up to the last. The op must then say ResourceExhausted and have changed
no variable, or do without and give the right result. Another call must give
that too: so no lock is left behind. The calls run in child processes with the
interposer (interposer.cc); one that dies is counted and reported.
"""

import collections
import ctypes
import json
import sys
import threading

from tests.faults import preloaded
from tests.support import children

# How a call is made: its op kernel made before, and its thread's scratch
# there; by a tf.function; each time with a new op kernel, on a new thread; and
# only built into a graph.
MODES = ("eager", "function", "cold", "graph")
_CASES_PER_CHILD = 200
# More than this of one call, and only some of them fail.
_MAX_PER_CASE = 300
# Batches so large that outputs come from the op library's own pool of pages.
_LARGE = {"tree": "two_level_30", "batch": (1100,), "width": 1000}


def parse(arguments):
    parser = children.parser(__doc__)
    parser.add_argument("--injections", type=int, default=2000)
    parser.add_argument("--first", type=int, default=0, help="case")
    parser.add_argument("--cases", type=int, help="at most; else no bound")
    return parser.parse_args(arguments)


class Case:
    """One call, which can be made again and again."""

    def __init__(self, seed, number):
        import numpy as np
        import tensorflow as tf

        from tests.support import op_calls, random_calls

        op, on_variables = random_calls.OPS[number % len(random_calls.OPS)]
        number //= len(random_calls.OPS)
        self.mode = MODES[number % len(MODES)]
        rng = np.random.default_rng([seed, number])
        is_large = number % 16 == 5 and op in ("loss", "train_step")
        sizes = _LARGE if is_large else {}
        self._call = random_calls.valid_call(op, on_variables, rng, **sizes)
        self.name = f"{op_calls.raw_name(op, on_variables)} ({self.mode})"
        self._held = self._call.variables()
        self._given = self._call.tensors()
        if self.mode == "function":
            self._function = tf.function(self._trace, autograph=False)
        self.before = self.reset()
        self.right = self.state(self.run())

    def _run_eagerly(self):
        return self._call.run(self._held, self._given)

    def run(self):
        """Makes the call; returns its outputs."""
        if self.mode == "function":
            return self._function()
        if self.mode == "graph":
            return self._call.trace()
        if self.mode == "eager":
            return self._run_eagerly()
        from tests.support import private

        private.forget_kernels()
        ended = []

        def body():
            try:
                ended.append((self._run_eagerly(), None))
            except Exception as error:
                ended.append((None, error))

        thread = threading.Thread(target=body)
        thread.start()
        thread.join()
        result, error = ended[0]
        if error is not None:
            raise error
        return result

    def _trace(self):
        import tensorflow as tf

        result = self._run_eagerly()
        return None if isinstance(result, tf.Operation) else result

    def reset(self):
        """Gives the variables their first values again; returns these."""
        self._held = self._call.variables()
        return self.variables()

    def variables(self):
        return [v.numpy().tobytes() for vs in self._held.values() for v in vs]

    def state(self, result):
        """The bytes of all that a call has made."""
        outputs = getattr(result, "_asdict", lambda: {"": result})()
        return self.variables(), {
            name: output.numpy().tobytes()
            for name, output in outputs.items()
            if name != "state" and hasattr(output, "numpy")
        }


def inject(case, interposer, injection):
    """Lets one allocation of a call fail.

    Returns:
        What came of it in a word, or a sentence about what is wrong; None if
        the call has fewer allocations.
    """
    import tensorflow as tf

    case.reset()
    message = result = None
    interposer.Arm(injection)
    try:
        result = case.run()
    except (tf.errors.ResourceExhaustedError, MemoryError) as error:
        message = type(error).__name__
    except Exception as error:
        message = f"wrong: {type(error).__name__}: {str(error)[:300]}"
    interposer.Disarm()
    if not interposer.Fired():
        return None
    if message is None:
        same = case.state(result) == case.right
        return "done without" if same else "wrong: another result"
    if case.variables() != case.before:
        return f"wrong: {message}, but the variables have changed"
    if case.state(case.run()) != case.right:
        return f"wrong: {message}, and then another result"
    return message


def make_cases(options):
    """A child: goes through cases; prints a count per outcome as JSON."""
    import numpy as np
    import tensorflow as tf

    tf.config.threading.set_intra_op_parallelism_threads(4)
    interposer = ctypes.CDLL(None)
    progress = children.Progress()
    outcomes = collections.Counter()
    cases, total = 0, 0
    while total < options.injections and cases < options.cases:
        number = options.first + cases
        progress.report(number)
        case = Case(options.seed, number)
        interposer.Arm(0)
        case.run()
        count = interposer.Disarm()
        chosen = np.arange(1, count + 50)  # they vary with the threads
        if len(chosen) > _MAX_PER_CASE:
            some = np.random.default_rng(number)
            chosen = np.sort(some.choice(chosen, _MAX_PER_CASE, replace=False))
        for injection in map(int, chosen):
            progress.report(number, injection)
            outcome = inject(case, interposer, injection)
            if outcome is None:
                if injection > count:
                    break
                continue
            if outcome.startswith("wrong"):
                outcome = (
                    f"WRONG: case {number}, {case.name}, allocation "
                    f"{injection}: {outcome}"
                )
            outcomes[outcome] += 1
            total += 1
        cases += 1
    print(json.dumps([outcomes, cases]))


def main(arguments=None):
    options = parse(arguments)
    if options.child:
        make_cases(options)
        return 0
    end = options.first + (options.cases or 10**9)

    def run_child(first, made):
        return preloaded.run(
            "tests.faults.allocations",
            [
                "--child",
                f"--seed={options.seed}",
                f"--first={first}",
                f"--cases={min(_CASES_PER_CHILD, end - first)}",
                f"--injections={options.injections - made}",
            ],
            first,
        )

    def is_enough(total):
        return total.total() >= options.injections

    return children.survey(run_child, options.first, end, is_enough, "calls")


if __name__ == "__main__":
    sys.exit(main())
