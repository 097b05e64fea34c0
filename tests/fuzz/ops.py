"""Calls the raw ops with forged arguments: no call may end the process.

    bazel run //tests/fuzz:ops -- --calls=1000000 --seed=1

The calls run in child processes. One that dies is counted and reported with the
call's number, and the next goes on after it; `--first=NUMBER --calls=1` with
the same seed makes that call again. Exits with 1 if any process died or any
call did something else than return or raise an error about its arguments.
"""

import collections
import json
import sys

from tests.support import children

# Calls of one child, which then gives its memory back.
_CALLS_PER_CHILD = 20_000
# A limit of address space: a larger allocation fails at once.
_MAX_BYTES = 24 << 30


def parse(arguments):
    parser = children.parser(__doc__)
    parser.add_argument("--calls", type=int, default=10_000)
    parser.add_argument("--first", type=int, default=0, help="number of a call")
    return parser.parse_args(arguments)


def make_calls(options):
    """A child: makes the calls; prints a count per outcome as JSON."""
    import resource

    from tests.fuzz import hostile_calls

    resource.setrlimit(resource.RLIMIT_AS, (_MAX_BYTES, _MAX_BYTES))
    progress = children.Progress()
    outcomes = collections.Counter()
    for number in range(options.first, options.first + options.calls):
        progress.report(number)
        try:
            outcome = hostile_calls.try_call(options.seed, number)
        except Exception as error:
            outcome = f"wrong: {type(error).__name__}: {error}"
        if outcome.startswith("wrong"):
            outcome = f"WRONG: call {number}: {outcome[:300]}"
        outcomes[outcome] += 1
    print(json.dumps([outcomes, options.calls]))


def main(arguments=None):
    options = parse(arguments)
    if options.child:
        make_calls(options)
        return 0
    end = options.first + options.calls

    def run_child(first, made):
        return children.run(
            "tests.fuzz.ops",
            [
                "--child",
                f"--seed={options.seed}",
                f"--first={first}",
                f"--calls={min(_CALLS_PER_CHILD, end - first)}",
            ],
            first,
            # TensorFlow's other allocator waits for 10 s before it gives up.
            environment={"TF_ENABLE_ONEDNN_OPTS": "0"},
        )

    return children.survey(
        run_child, options.first, end, lambda total: False, "calls"
    )


if __name__ == "__main__":
    sys.exit(main())
