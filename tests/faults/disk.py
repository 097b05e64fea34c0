"""Lets each call that writes fail, one at a time, in all that saves.

    bazel run //tests/faults:disk

A tree, an export and a checkpoint are written over and over into a folder, and
the first call that writes there fails, then the second, up to the last: alone,
or with all that follow, as on a disk that is full, read-only or gone. What was
there before must be whole, and nothing else may be left, but the error must be
a sentence; or the call is done without, and what is written is whole.
"""

import argparse
import collections
import ctypes
import errno
import functools
import json
import os
import pathlib
import sys
import tempfile

from tests.faults import preloaded
from tests.support import children

_ERRORS = (errno.ENOSPC, errno.EROFS, errno.EIO)


class SavesTree:
    """`Tree.save` of a pinned tree over an earlier file."""

    def __init__(self):
        import tf_hsm

        self._tree = tf_hsm.Tree.huffman([9, 5, 1, 1, 7, 2], pinned=True)
        self._load = tf_hsm.Tree.load
        self._earlier = tf_hsm.Tree.two_level(50)

    def begin(self, folder):
        self._earlier.save(folder / "tree.npz")

    def save(self, folder):
        self._tree.save(folder / "tree.npz")

    def is_new(self, folder):
        return self._load(folder / "tree.npz") == self._tree


class SavesExport:
    """`tf_hsm.serving.export` of a head beside an earlier export."""

    def __init__(self, name="HierarchicalSoftmax", is_pinned=False):
        import keras

        import tf_hsm
        from tests.support import heads_by_name

        tree = {"tree": tf_hsm.Tree.balanced(9, 2).pin()} if is_pinned else {}
        head = heads_by_name.built(name, **tree)
        self._inputs = heads_by_name.inputs(name)
        symbol = keras.Input(
            self._inputs.shape[1:], name="inputs", dtype=self._inputs.dtype.name
        )
        self._model = keras.Model(symbol, head(symbol))
        self._export = tf_hsm.serving.export

    def begin(self, folder):
        (folder / "earlier").mkdir()
        (folder / "earlier" / "saved_model.pb").write_text("earlier")

    def save(self, folder):
        self._export(self._model, folder / "new", k=3)

    def is_new(self, folder):
        import tensorflow as tf

        from tf_hsm.runtime.library import op_library_path

        loaded = tf.saved_model.load(folder / "new")
        (extra,) = (folder / "new" / "assets.extra").iterdir()
        library = pathlib.Path(op_library_path())
        same = extra.read_bytes() == library.read_bytes()
        found = loaded.signatures["serving_default"](inputs=self._inputs)
        return same and found["classes"].shape == (len(self._inputs), 3)


class SavesCheckpoint:
    """The language model's checkpoint over an earlier one."""

    def __init__(self):
        import keras

        from examples.language_model import checkpoint, settings

        self._checkpoint = checkpoint
        self._model = keras.Sequential(
            [keras.Input([2]), keras.layers.Dense(2)]
        )
        self._model.compile("sgd", "mse")
        self._run = checkpoint.Run(
            settings.Settings(), "digest", ("a",), "code", "<eof>", []
        )

    def begin(self, folder):
        (folder / self._checkpoint.MODEL).write_bytes(b"earlier")

    def save(self, folder):
        self._checkpoint.save(folder, self._model, self._run)

    def is_new(self, folder):
        _, run = self._checkpoint.load(folder)
        return run.digest == "digest"


WRITERS = {
    "tree": SavesTree,
    "export": SavesExport,
    "label_tree_export": functools.partial(SavesExport, "LabelTree"),
    "embedding_export": functools.partial(
        SavesExport, "EmbeddingSoftmax", is_pinned=True
    ),
    "checkpoint": SavesCheckpoint,
}


def _contents(folder):
    return {
        str(path.relative_to(folder)): path.is_file() and path.read_bytes()
        for path in sorted(folder.rglob("*"))
    }


def _half_written(writer, folder):
    """What is wrong with what was written; None: nothing."""
    try:
        return None if writer.is_new(folder) else "half written"
    except Exception as error:
        return f"half written: {type(error).__name__}: {error}"


def inject(writer, interposer, call, error, all_fail):
    """Lets one call of a save fail.

    Returns:
        What came of it in a word, or "wrong: " and a sentence; and how many
        calls there were.
    """
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        writer.begin(folder)
        before, failure = _contents(folder), None
        interposer.ArmFolder(os.fsencode(name + "/"), call, error, all_fail)
        try:
            writer.save(folder)
        except OSError as error:
            failure = str(error)
        except Exception as error:
            failure = f"{type(error).__name__}: {error}"
        count = interposer.Disarm()
        if not interposer.Fired():
            return ("wrong: " + failure if failure else None), count
        after = _contents(folder)
        if failure is None:
            half = _half_written(writer, folder)
            return (f"wrong: {half}" if half else "done without"), count
        if after != before:
            left = after.keys() - before.keys()
            return f"wrong: {failure}: left {left or 'another file'}", count
        if "\n" in failure or len(failure.replace(name, "")) > 400:
            return f"wrong: no sentence: {failure[:300]!r}", count
        writer.save(folder)
        half = _half_written(writer, folder)
        return (f"wrong: afterwards {half}" if half else "refused"), count


def make_injections(options):
    """A child: goes through the calls; prints a count per outcome as JSON."""
    interposer = ctypes.CDLL(None)
    progress = children.Progress()
    outcomes = collections.Counter()
    for number, name in enumerate(options.writers):
        writer = WRITERS[name]()
        _, count = inject(writer, interposer, 0, errno.ENOSPC, False)
        every = options.every_of_export if "export" in name else 1
        for i, call in enumerate(range(1, count + 1, every)):
            progress.report(number, call)
            kinds = (False, True) if every == 1 else (i % 2 == 1,)
            for all_fail in kinds:
                error = _ERRORS[(call + all_fail) % len(_ERRORS)]
                outcome, _ = inject(writer, interposer, call, error, all_fail)
                if outcome and outcome.startswith("wrong"):
                    outcome = (
                        f"WRONG: {name}, call {call} of {count}: {outcome}"
                    )
                else:
                    outcome = f"{name}: {outcome or 'fewer calls'}"
                outcomes[outcome] += 1
        outcomes[f"{name}: calls"] = count
    print(json.dumps(outcomes))


def main(arguments=None):
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--writers", nargs="*", default=list(WRITERS))
    parser.add_argument(
        "--every_of_export",
        type=int,
        default=1,
        help="more than 1: of an export, which takes long, only every such\n"
        "call fails, and in turn alone and with all that follow",
    )
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.child:
        make_injections(options)
        return 0
    arguments = ["--child", f"--every_of_export={options.every_of_export}"]
    child = preloaded.run(
        "tests.faults.disk", [*arguments, "--writers", *options.writers]
    )
    if child.output is None:
        print(f"CRASH at {child.progress}: {child.death}")
        return 1
    outcomes = json.loads(child.output.splitlines()[-1])
    for outcome, count in outcomes.items():
        print(f"{count:,} {outcome}")
    return 1 if any(k.startswith("WRONG") for k in outcomes) else 0


if __name__ == "__main__":
    sys.exit(main())
