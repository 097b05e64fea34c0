"""Hashes the results of some 2,300 calls, to compare two builds bit by bit.

    bazel run //tests:bits -- --output=before.txt
    bazel run //tests:bits -- --against=before.txt

The calls are valid calls of every raw op, over trees, element types and
options, and what the heads of `tests/golden/heads` answer before and after
training. Bits depend on the instruction set: see `TF_HSM_CPU_ISA`.
"""

import hashlib
import itertools
import pathlib
import zlib

import numpy as np
from absl import app, flags

import tf_hsm
from tests.golden.heads import answers, cases, data
from tests.support import op_calls, random_calls

_OUTPUT = flags.DEFINE_string("output", None, "Writes the hashes here.")
_AGAINST = flags.DEFINE_string("against", None, "Hashes to compare with.")

_TREES = (
    "two_level_30",
    "binary_12",
    "huffman_31",
    "flat_70",
    "wide_2100",
    "pinned_40",
    "forest_33",
)
_SHAPE = {"batch": (90,), "width": 35}  # no multiple of any vector
# The kind of weights in each call of an op; only some ops take codes.
_MODES = (None, None, "int8", "int4")


def _results(call):
    """What a call returns, and its variables afterwards."""
    held = call.variables()
    made = call.run(held)
    outputs = getattr(made, "_asdict", lambda: {"": made})()
    # The state of a loss shows in the steps that start from it.
    outputs = [v for k, v in outputs.items() if k != "state"]
    every = itertools.chain(outputs, *held.values())
    return [v.numpy() for v in every if hasattr(v, "numpy")]


def _results_of_head(name):
    """What a head answers, and what more training makes of its model."""
    model, arrays = cases.make_model(name), data.make_data(name)
    found = answers.of_model(name, model, arrays)
    found |= answers.after_training(name, model, arrays)
    return [*found.values()]


def _all_results():
    """Yields the name of each call, and its results."""
    for (op, on_variables), tree, dtype, (number, mode) in itertools.product(
        random_calls.OPS, _TREES, random_calls.DTYPES, enumerate(_MODES)
    ):
        if op.startswith("label_tree") and tree in _TREES[-2:]:
            continue
        name = op_calls.raw_name(op, on_variables)
        name = f"{name} {tree} {np.dtype(dtype)} {number}"
        rng = np.random.default_rng(zlib.crc32(name.encode()))
        has_modes = on_variables and op in random_calls.INFERENCE
        if not has_modes or op.endswith("grad") or dtype != np.float32:
            mode = None
        call = random_calls.valid_call(
            op, on_variables, rng, dtype=dtype, tree=tree, mode=mode, **_SHAPE
        )
        yield name, _results(call)
    for name in cases.CASES:
        yield name, _results_of_head(name)


def _digest(arrays):
    digest = hashlib.sha256()
    for array in arrays:
        digest.update(f"{array.dtype} {array.shape}".encode())
        digest.update(np.ascontiguousarray(array))
    return digest.hexdigest()[:16]


def main(argv):
    """Makes all calls; exits with 1 where one differs."""
    del argv
    lines = [f"{name} {_digest(arrays)}" for name, arrays in _all_results()]
    print(f"{len(lines)} calls on {tf_hsm.cpu_isa()}, tf_hsm of", end=" ")
    print(pathlib.Path(tf_hsm.__file__).parent)
    if _OUTPUT.value:
        pathlib.Path(_OUTPUT.value).write_text("\n".join(lines) + "\n")
    if _AGAINST.value:
        known = pathlib.Path(_AGAINST.value).read_text().splitlines()
        changed = sorted(set(lines) ^ set(known))
        print(
            f"{len(changed)} differ from {_AGAINST.value}", *changed, sep="\n"
        )
        return int(bool(changed))
    return 0


if __name__ == "__main__":
    app.run(main)
