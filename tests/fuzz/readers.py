"""Damages files and reads them: each is read, or refused in a sentence.

    bazel run //tests/fuzz:readers -- --cases=100000 --seed=1

A finding is a file whose reader raises another error than a ValueError or an
OSError, warns, takes more than a gigabyte or ten seconds of CPU, or ends the
process. Each is reported with its number: `--first=NUMBER --cases=1` with the
same seed reads that file again. Exits with 1 after a finding.
"""

import collections
import json
import math
import mmap
import pathlib
import resource
import signal
import sys
import tempfile
import time
import traceback
import warnings
import zipfile

import numpy as np

from tests.fuzz import seeds
from tests.fuzz.mutations import damage
from tests.support import children

# Cases of one child process, which then gives its memory back.
_CASES_PER_CHILD = 25_000
_SECONDS = 10  # of CPU that a case may take
_BYTES = 1 << 30  # that a case may take


class _Hang(BaseException):
    """A case takes too long."""


def _fasttext(path):
    from tf_hsm import converters

    model = converters.from_fasttext(path)
    assert model.tree.num_classes == len(model.names)
    if model.line_vector is not None:
        model.line_vector("one of the words, and others")


def _tree(path):
    from tf_hsm.tree import Tree

    tree = Tree.load(path)
    tree.summary()
    tree.path(tree.num_classes - 1)
    assert tree.names is None or len(tree.names) == tree.num_rows


def _config(path):
    from tf_hsm.tree import Tree

    try:
        config = json.loads(path.read_bytes())
    except RecursionError as error:
        raise ValueError("is no config: json says so") from error
    tree = Tree.from_config(config)
    assert tree.names is None or len(tree.names) == tree.num_rows


def _counts(path):
    from tf_hsm.tree import Tree, class_files

    counts, words = class_files.read_counts(path)
    tree = Tree.huffman(counts)
    if words is not None:
        tree = tree.with_class_names(words)
        assert tree.class_of(words[-1]) == counts.size - 1


def _paths(path):
    from tf_hsm.tree import Tree, class_files

    Tree.from_paths(class_files.read_paths(path))


def _vectors(path):
    from tf_hsm.tree import Tree, class_files

    vectors = class_files.read_array(path)
    Tree.from_embeddings(vectors, verbose=False, max_iterations=2)


def _extreme(path):
    from tf_hsm import LabelCounts, datasets
    from tf_hsm.tree import Tree

    data = datasets.load_extreme(path)
    data.padded_features()
    labels = data.labels()
    assert len(labels) == len(data)
    if not 0 < data.num_labels < 1000:
        return  # a header may say more than a tree of them could hold
    tree = Tree.huffman(np.bincount(data.label_ids, minlength=data.num_labels))
    counts = LabelCounts.of(tree, labels)
    assert np.isfinite(counts.log_odds()).all()


def _sparse(path):
    from tf_hsm import datasets

    rows = datasets.load_sparse(path)
    ids, values = rows.padded()
    assert ids.shape == values.shape and len(ids) == len(rows)
    assert (ids < max(rows.num_columns, 1)).all() and np.isfinite(values).all()


def _keras_file(path):
    """Reads a model that is one of those saved, or does not."""
    import keras

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of Keras
            model = keras.models.load_model(path)
    except (zipfile.BadZipFile, KeyError) as error:  # Keras lets them pass
        raise ValueError(f"is no model: {error}") from error
    values = [w.tobytes() for w in model.get_weights()]
    assert values in [weights for _, weights in seeds.saved_models()]


# How files are read that are named so.
_READERS = {
    "model.bin": _fasttext,
    "tree.npz": _tree,
    "config.json": _config,
    "counts.txt": _counts,
    "counts.npy": _counts,
    "paths.txt": _paths,
    "vectors.npy": _vectors,
    "extreme.txt": _extreme,
    "sparse.txt": _sparse,
    "model.keras": _keras_file,
}
# Files whose checksums must tell all damage.
_CHECKED = ("model.keras",)


def read_case(case, seed, folder):
    """Makes a damaged file and reads it.

    Returns:
      The name of the file; "read", or "refused", or what is wrong.
    """
    rng = np.random.default_rng([seed, case])
    name = [*_READERS][rng.integers(len(_READERS))]
    whole = seeds.files()[name]
    path = folder / name
    data = whole[rng.integers(len(whole))]
    path.write_bytes(damage(rng, data, whole, of_bytes=name in _CHECKED))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    signal.setitimer(signal.ITIMER_PROF, _SECONDS)
    try:
        _READERS[name](path)
        outcome = "read"
    except (ValueError, OSError) as error:
        outcome = "refused" if str(error) else "refused without a word"
    except (Exception, _Hang):
        outcome = traceback.format_exc()
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    if 1024 * (peak - before) > _BYTES:
        outcome = f"takes {peak - before} KiB"
    return name, outcome


def read_cases(cases, seed, folder, at=lambda case: None):
    """Reads damaged files.

    Args:
      cases: their numbers.
      seed: of all.
      folder: where they may be written.
      at: is told each number.

    Returns:
      The number of cases by name and outcome, a Counter. A finding begins with
      WRONG, and has the number.
    """
    counts = collections.Counter()

    def stop(*args):
        raise _Hang

    seeds.files()  # Keras warns.
    before = signal.signal(signal.SIGPROF, stop)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            # Numbers of a model may overflow, or be NaN.
            warnings.simplefilter("ignore", RuntimeWarning)
            for case in cases:
                at(case)
                name, outcome = read_case(case, seed, pathlib.Path(folder))
                is_fine = outcome in ("read", "refused")
                wrong = "" if is_fine else f"WRONG: case {case}: "
                counts[f"{wrong}{name} {outcome}"] += 1
    finally:
        signal.signal(signal.SIGPROF, before)
    return counts


def _limit_memory():
    """Lets an allocation fail that is far more than a case may take."""
    import tf_hsm  # noqa: F401, which takes address space

    pages = int(pathlib.Path("/proc/self/statm").read_text().split()[0])
    limit = pages * mmap.PAGESIZE + 4 * _BYTES
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))


def main(arguments=None):
    """Returns the exit status."""
    parser = children.parser(__doc__)
    parser.add_argument("--cases", type=int, default=10_000)
    parser.add_argument("--minutes", type=float, help="in place of --cases")
    parser.add_argument("--first", type=int, default=0)
    options = parser.parse_args(arguments)
    end = options.first + options.cases
    if options.child:
        _limit_memory()
        at, cases = children.Progress().report, range(options.first, end)
        with tempfile.TemporaryDirectory() as folder:
            counts = read_cases(cases, options.seed, folder, at)
        print(json.dumps([counts, options.cases]))
        return 0
    until = math.inf
    if options.minutes is not None:
        end, until = sys.maxsize, time.monotonic() + 60 * options.minutes

    def run_child(first, made):
        arguments = {
            "seed": options.seed,
            "first": first,
            "cases": min(_CASES_PER_CHILD, end - first),
        }
        given = [f"--{name}={value}" for name, value in arguments.items()]
        return children.run("tests.fuzz.readers", ["--child", *given], first)

    return children.survey(
        run_child,
        options.first,
        end,
        lambda total: time.monotonic() > until,
        "cases",
    )


if __name__ == "__main__":
    sys.exit(main())
