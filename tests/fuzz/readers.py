"""Damages files and reads them: each is read, or refused in a sentence.

    bazel run //tests/fuzz:readers -- --cases=100000 --seed=1

A finding is a file whose reader raises another error than a ValueError or an
OSError, warns, takes more than a gigabyte or ten seconds of CPU, or ends the
process. Each is reported with its number: `--first=NUMBER --cases=1` with the
same seed reads that file again. Exits with 1 after a finding.
"""

import argparse
import collections
import json
import mmap
import os
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
      The number of cases by name and outcome, a Counter; and the findings, a
      list of number, name and text.
    """
    counts, findings = collections.Counter(), []

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
                counts[f"{name} {outcome if is_fine else 'FOUND'}"] += 1
                if not is_fine:
                    findings.append([case, name, outcome])
    finally:
        signal.signal(signal.SIGPROF, before)
    return counts, findings


def _run_child(cases, seed):
    """As `read_cases`, in a process that may end; returns the number read."""
    current = mmap.mmap(-1, 8)
    reads, writes = os.pipe()
    child = os.fork()
    if not child:
        try:
            os.close(reads)
            with tempfile.TemporaryDirectory() as folder:
                _limit_memory()
                answer = read_cases(
                    cases, seed, folder, lambda case: _put(current, case)
                )
            with open(writes, "w") as file:
                json.dump(answer, file)
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(0)
    os.close(writes)
    with open(reads) as file:
        text = file.read()
    _, status = os.waitpid(child, 0)
    if not text:
        case = int.from_bytes(current[:8], "little")
        finding = [case, "?", f"ends the process: status {status}"]
        return {"process ended FOUND": 1}, [finding], case + 1 - cases.start
    return *json.loads(text), len(cases)


def _put(shared, case):
    shared[:8] = case.to_bytes(8, "little")


def _limit_memory():
    """Lets an allocation fail that is far more than a case may take."""
    import tf_hsm  # noqa: F401, which takes address space

    pages = int(pathlib.Path("/proc/self/statm").read_text().split()[0])
    limit = pages * mmap.PAGESIZE + 4 * _BYTES
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))


def main(arguments=None):
    """Returns the exit status."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--cases", type=int, default=10_000)
    parser.add_argument("--minutes", type=float, help="in place of --cases")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--first", type=int, default=0)
    flags = parser.parse_args(arguments)
    start = time.monotonic()
    counts, num_findings, case = collections.Counter(), 0, flags.first
    while True:
        size = _CASES_PER_CHILD
        if flags.minutes is None:
            size = min(size, flags.first + flags.cases - case)
            is_done = size <= 0
        else:
            is_done = time.monotonic() - start > 60 * flags.minutes
        if is_done:
            break
        found, findings, read = _run_child(range(case, case + size), flags.seed)
        counts.update(found)
        case += read
        for number, name, text in findings:
            print(f"case {number}, {name}: {text}", flush=True)
        num_findings += len(findings)
        print(f"{case - flags.first:,} cases", file=sys.stderr, flush=True)
    for key in sorted(counts):
        print(f"{counts[key]:12,}  {key}")
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = usage.ru_utime + usage.ru_stime
    print(
        f"{case - flags.first:12,}  cases with seed {flags.seed}, "
        f"{num_findings} findings, {cpu / 60:.1f} minutes of CPU"
    )
    return 1 if num_findings else 0


if __name__ == "__main__":
    sys.exit(main())
