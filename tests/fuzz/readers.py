"""Damages files and reads them: each is read, or refused in a sentence.

    bazel run //tests/fuzz:readers -- --cases=100000 --seed=1

A finding is a file whose reader raises another error than a ValueError or an
OSError, warns, takes more than a gigabyte or ten seconds of CPU, or ends the
process. Each is reported with its number: `--first=NUMBER --cases=1` with the
same seed reads that file again. Exits with 1 after a finding.
"""

import argparse
import collections
import functools
import io
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

from tests.fuzz.mutations import damage

# Cases of one child process, which then gives its memory back.
_CASES_PER_CHILD = 25_000
_SECONDS = 10  # of CPU that a case may take
_BYTES = 1 << 30  # that a case may take
_GOLDEN = pathlib.Path(__file__).parents[1] / "golden/converters"


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
    assert values in [weights for _, weights in _saved_models()]


def _checkpoint(path):
    """Reads the state of a run of word2vec that is the one saved."""
    from examples.word2vec import checkpoint

    run, variables, values = _word_vectors()
    assert checkpoint.load(path.parent) == run
    checkpoint.load_tables(path.parent, variables)
    assert [v.numpy().tobytes() for v in variables.values()] == values


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
    "model.keras": _keras_file,
    "checkpoint.npz": _checkpoint,
}
# Those whose checksums must tell all damage.
_CHECKED = ("model.keras", "checkpoint.npz")
_TEXTS = {
    "counts.txt": [
        "60\n30\n6\n3\n1\n",
        "the 60\nof 30\nNew York 6\n猫 1.5\n",
        "the\t6\r\nof\t3e2\r\n\r\n",
        "     60 the\n     30 of\n      6 17\n      1 \n",
        "\ufeff5 6\n7 8\n",
    ],
    "paths.txt": [
        "animal/cat\nanimal/dog\nplant\nstone/猫/b\n",
        "a\r\nb/c\r\n",
    ],
    "extreme.txt": [
        "3 7 9\n4,8 3:0.5 6:1.25\n 2:7\n0\n",
        "1,2,3 0:1 1:-2e3\n5 8:0.125\n",
        "0 0:1\r\n \r\n",
    ],
}


@functools.cache
def _saved_models():
    """Models with heads of each kind: bytes of a file, and of the weights."""
    import keras

    from tf_hsm import LabelCounts, layers
    from tf_hsm.tree import Tree

    tree = Tree.huffman(np.arange(1, 10), pinned=True)
    labelled = tree.expand()
    counts = LabelCounts.expected(labelled, np.arange(1, 10), 20)
    heads = [
        layers.HierarchicalSoftmax(
            tree, label_smoothing=0.1, optimizer="adagrad", node_labels=True
        ),
        layers.LabelTree(labelled, counts=counts),
        layers.EmbeddingSoftmax(tree, 5, 3, optimizer="rowwise_adagrad"),
    ]
    saved = []
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "model.keras"
        for head in heads:
            embeds = isinstance(head, layers.EmbeddingSoftmax)
            inputs = keras.Input([3], dtype="int64" if embeds else None)
            model = keras.Model(inputs, head(inputs))
            model.save(path)
            weights = [w.tobytes() for w in model.get_weights()]
            saved.append((path.read_bytes(), weights))
    return saved


@functools.cache
def _word_vectors():
    """A run of word2vec, whose tree is pinned; its tables, and their bytes."""
    from examples.word2vec import checkpoint, model, settings

    chosen = settings.Settings(width=3, optimizer="adagrad")
    run = checkpoint.Run(chosen, "digest", epochs_done=1)
    variables = model.Model(np.arange(1, 8), chosen).variables
    return run, variables, [v.numpy().tobytes() for v in variables.values()]


@functools.cache
def _seeds():
    """Returns whole files, a list of their bytes by name."""
    from examples.word2vec import checkpoint
    from tf_hsm.tree import Tree

    trees = [
        Tree.huffman(np.arange(20)),
        Tree.huffman(np.arange(7), pinned=True),
        Tree.from_paths([("animal", "cat"), ("animal", "猫"), ("plant",)]),
        Tree.balanced(1, 2),
    ]
    seeds = {
        name: [t.encode() for t in texts] for name, texts in _TEXTS.items()
    }
    seeds["model.bin"] = [
        (_GOLDEN / name).read_bytes()
        for name in ("supervised.bin", "skip_gram.bin", "quantized.ftz")
    ]
    seeds["config.json"] = [json.dumps(t.get_config()).encode() for t in trees]
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "tree.npz"
        seeds["tree.npz"] = []
        for tree in trees:
            tree.save(path)
            seeds["tree.npz"].append(path.read_bytes())
        checkpoint.save(folder, *_word_vectors()[:2])
        path = pathlib.Path(folder) / checkpoint.FILE
        seeds["checkpoint.npz"] = [path.read_bytes()]
    seeds["model.keras"] = [data for data, _ in _saved_models()]
    for name, arrays in {
        "counts.npy": [np.arange(9), np.array([0.5, 2], ">f4")],
        "vectors.npy": [np.eye(5, 3), np.asfortranarray(np.ones([4, 2], "f2"))],
    }.items():
        seeds[name] = []
        for array in arrays:
            file = io.BytesIO()
            np.save(file, array)
            seeds[name].append(file.getvalue())
    return seeds


def read_case(case, seed, folder):
    """Makes a damaged file and reads it.

    Returns:
      The name of the file; "read", or "refused", or what is wrong.
    """
    rng = np.random.default_rng([seed, case])
    name = [*_READERS][rng.integers(len(_READERS))]
    seeds = _seeds()[name]
    path = folder / name
    data = seeds[rng.integers(len(seeds))]
    path.write_bytes(damage(rng, data, seeds, of_bytes=name in _CHECKED))
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

    _seeds()  # Keras warns.
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
