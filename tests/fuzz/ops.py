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
import time

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
    print(json.dumps(outcomes))


def main(arguments=None):
    options = parse(arguments)
    if options.child:
        make_calls(options)
        return 0
    total, bad = collections.Counter(), []
    done, begin = 0, time.monotonic()
    while done < options.calls:
        first = options.first + done
        calls = min(_CALLS_PER_CHILD, options.calls - done)
        child = children.run(
            "tests.fuzz.ops",
            [
                "--child",
                f"--seed={options.seed}",
                f"--first={first}",
                f"--calls={calls}",
            ],
            first,
            # TensorFlow's other allocator waits for 10 s before it gives up.
            environment={"TF_ENABLE_ONEDNN_OPTS": "0"},
        )
        if child.output is None:
            number = child.progress[0]
            calls = number - first + 1
            bad.append(f"CRASH: --seed={options.seed} --first={number}")
            print(f"{bad[-1]} --calls=1 {child.death}", flush=True)
        else:
            outcomes = json.loads(child.output.splitlines()[-1])
            total += collections.Counter(outcomes)
        done += calls
        wrong = [name for name in total if name.startswith("WRONG")]
        print(
            f"{done:,} calls in {time.monotonic() - begin:,.0f} s: "
            f"{len(bad)} crashes, {len(wrong)} wrong; "
            + ", ".join(f"{v:,} {k}" for k, v in total.most_common(8)),
            flush=True,
        )
    for name in bad + wrong:
        print(name)
    return 1 if bad or wrong else 0


if __name__ == "__main__":
    sys.exit(main())
