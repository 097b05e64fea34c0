"""The two passes: the ids of a plain reader, whatever cuts, kills, threads."""

import collections
import contextlib
import hashlib
import itertools
import os
import pathlib
import random
import shutil
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

from examples.corpora import cache, corpus, counting, formats, making, tokenizer
from tests.support.pairs import all_pairs

LETTERS = "aeiou bcdf\tgh\n\n    klé我ไ.(_1'\r\n"


def write(path, num_bytes, seed=0):
    """Text of words of all lengths, in lines of all lengths."""
    rng = random.Random(seed)
    words = [
        "".join(rng.choices("abcdefgé", k=rng.randint(1, 9)))
        for _ in range(5000)
    ]
    weights = [1 / (i + 1) for i in range(len(words))]
    with open(path, "w", newline="") as file:
        while file.tell() < num_bytes:
            some = rng.choices(words, weights, k=20_000)
            some = [
                w + rng.choice(("\n", " ", " ", "  ", "\n    ", ". ", "\r\n"))
                for w in some
            ]
            file.write("".join(some))


def joined(lists):
    """One list."""
    return list(itertools.chain.from_iterable(lists))


def plain_reader(path, by_lines, tokens):
    """Class ids of each part as a few lines of Python make them.

    The only thing taken from the package is where it divides the text, which
    `test_no_part_is_another` is about.
    """
    document = making.pieces.Document(
        path.name, str(path), 0, path.stat().st_size
    )
    blocks = making.pieces.blocks([document], 100, by_lines)
    data = path.read_bytes()
    order = sorted(
        blocks, key=lambda b: hashlib.sha256(b.name.encode()).digest()
    )
    parts = {"train": [], "valid": order[::20], "test": order[10::20]}
    held_out = parts["valid"] + parts["test"]
    parts["train"] = [b for b in blocks if b not in held_out]
    words = {}
    for part, chosen in parts.items():
        words[part] = []
        for block in sorted(chosen, key=lambda b: b.begin):
            text = data[block.begin : block.end].decode()
            text = text.replace("\r\n", "\n").replace("\r", "\n")
            split = {"words": str.split, "code": tokenizer.split}[tokens]
            if by_lines:
                for line in text.removesuffix("\n").split("\n"):
                    words[part] += [*split(line), "<eos>"]
            else:
                words[part] += [*split(text), "<eof>"]
    counts = collections.Counter(words["train"])
    rare = sum(n for n in counts.values() if n < 2)
    kept = {w: n for w, n in counts.items() if n >= 2} | {"<unk>": rare}
    names = sorted(kept, key=lambda w: (-kept[w], w))
    class_of = {w: i for i, w in enumerate(names)}
    return names, {
        part: [class_of.get(w, class_of["<unk>"]) for w in some]
        for part, some in words.items()
    }


@pytest.mark.parametrize(
    ("tokens", "form", "sizes"),
    all_pairs(
        ("words", "code"),
        ("documents", "lines"),
        ((300_000, 1000, 1), (1_000_000, 50_000, 2)),
    ),
)
def test_ids_of_a_plain_reader(tmp_path, monkeypatch, tokens, form, sizes):
    num_bytes, chunk, num_processes = sizes
    path = tmp_path / "text"
    write(path, num_bytes)
    monkeypatch.setattr(making, "_CHUNK", chunk)
    options = corpus.Options(str(path), format=form, tokens=tokens)
    loaded = corpus.load(options, tmp_path / "cache", num_processes)
    words, ids = plain_reader(path, form == "lines", tokens)
    assert list(loaded.words) == words
    for part in formats.PARTS:
        np.testing.assert_array_equal(getattr(loaded, part), ids[part])
    np.testing.assert_array_equal(
        loaded.counts, np.bincount(ids["train"], minlength=len(words))
    )
    unknown = words.index("<unk>")
    assert loaded.unknown == unknown
    for part in formats.PARTS:
        assert loaded.unknown_rates[part] == pytest.approx(
            np.mean(np.array(ids[part]) == unknown)
        )


def test_chunks_of_megabytes(tmp_path):
    """As it is used."""
    path = tmp_path / "text"
    write(path, 10_000_000)
    options = corpus.Options(str(path), tokens="words", format="lines")
    loaded = corpus.load(options, tmp_path / "cache", num_processes=2)
    words, ids = plain_reader(path, True, "words")
    assert list(loaded.words) == words
    for part in formats.PARTS:
        np.testing.assert_array_equal(getattr(loaded, part), ids[part])


def test_cuts_change_no_token(tmp_path):
    """Any text, cut anywhere that a cut may be."""
    rng = random.Random(1)
    path = tmp_path / "text"
    for case in range(300):
        text = "".join(rng.choices(LETTERS, k=rng.randint(0, 300)))
        data = text.encode()
        path.write_bytes(data)
        document = making.pieces.Document("", str(path), 0, len(data))
        for whole_lines in False, True:
            num_parts = rng.randint(1, 40)
            offsets = making.pieces.cut(document, num_parts, whole_lines)
            assert offsets[0] == 0 and offsets[-1] == len(data)
            assert offsets == sorted(set(offsets)) or not data
            parts = [
                data[a:b].decode().replace("\r\n", "\n").replace("\r", "\n")
                for a, b in itertools.pairwise(offsets)
            ]
            whole = text.replace("\r\n", "\n").replace("\r", "\n")
            assert "".join(parts) == whole, case
            if not whole_lines:
                split = joined(map(tokenizer.split, parts))
                assert split == tokenizer.split(whole)
            assert joined(map(str.split, parts)) == whole.split()


def test_long_lines_are_cut_between_words(tmp_path, monkeypatch):
    monkeypatch.setattr(making.pieces, "LONGEST_WORD", 50)
    rng = random.Random(2)
    path = tmp_path / "text"
    for _ in range(100):
        words = [
            "".join(rng.choices("aé我.", k=rng.randint(1, 9)))
            for _ in range(99)
        ]
        text = words[0] + "".join(
            rng.choice((" ", "  ", "\t")) + word for word in words[1:]
        )
        path.write_text(text)
        document = making.pieces.Document("", str(path), 0, len(text.encode()))
        for whole_lines in False, True:
            offsets = making.pieces.cut(document, 20, whole_lines)
            assert len(offsets) > 10
            parts = [
                text.encode()[a:b].decode()
                for a, b in itertools.pairwise(offsets)
            ]
            assert joined(map(str.split, parts)) == words
            assert joined(map(tokenizer.split, parts)) == tokenizer.split(text)


def test_counts_that_do_not_fit_in_memory(tmp_path):
    rng = random.Random(0)
    tally = counting.Tally(tmp_path, most_tokens=50)
    expected = collections.Counter()
    for _ in range(40):
        some = collections.Counter(
            f"w{int(rng.paretovariate(0.5))}" for _ in range(99)
        )
        expected.update(some)
        tally.add(some)
    assert list(tmp_path.iterdir())
    found = tally.counts(lambda word, n: n >= 3)
    assert found == {w: n for w, n in expected.items() if n >= 3}
    assert not list(tmp_path.iterdir())


def test_the_cache_is_used_as_long_as_the_text_is_the_same(
    tmp_path, monkeypatch
):
    path = tmp_path / "text"
    write(path, 20_000)
    options = corpus.Options(str(path))
    first = corpus.load(options, tmp_path / "cache")
    made = []
    whole = making.make
    monkeypatch.setattr(making, "make", lambda *a: (made.append(1), whole(*a)))
    assert corpus.load(options, tmp_path / "cache").digest == first.digest
    assert not made
    corpus.load(corpus.Options(str(path), min_count=3), tmp_path / "cache")
    assert len(made) == 1
    write(path, 20_000, seed=1)
    assert corpus.load(options, tmp_path / "cache").digest != first.digest
    assert len(made) == 2


def test_what_fails_leaves_nothing(tmp_path):
    def fail(folder):
        (folder / "half").write_text("half")
        raise OSError("No space left on device")

    with pytest.raises(OSError, match="No space left"):
        cache.made(tmp_path, "name", fail)
    assert [p.name for p in tmp_path.iterdir()] == [".name.lock"]
    # A folder whose maker was killed: it holds no lock any more.
    (tmp_path / ".unfinished-other").mkdir()
    folder = cache.made(tmp_path, "name", lambda f: (f / "a").write_text("a"))
    assert (folder / "a").read_text() == "a"
    assert not list(tmp_path.glob(".unfinished*"))


def test_a_kill_at_any_moment_leaves_nothing_that_is_taken(tmp_path):
    path = tmp_path / "text"
    write(path, 600_000)
    root = tmp_path / "cache"
    program = (
        "import sys; from examples.corpora import corpus, making\n"
        "making._CHUNK = 40_000\n"
        "if __name__ == '__main__':\n"
        "    print('begin', flush=True)\n"
        "    options = corpus.Options(sys.argv[1], tokens='words')\n"
        "    corpus.load(options, sys.argv[2], int(sys.argv[3]))\n"
    )
    script = tmp_path / "read.py"
    script.write_text(program)

    def start(cache_root, num_processes):
        process = subprocess.Popen(
            [sys.executable, script, path, cache_root, str(num_processes)],
            stdout=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": os.getcwd()},
            start_new_session=True,
        )
        process.stdout.readline()
        return process

    durations = {}
    for number in 1, 2:
        process = start(tmp_path / f"whole{number}", number)
        begin = time.monotonic()
        assert process.wait() == 0
        durations[number] = time.monotonic() - begin
        (whole,) = (tmp_path / f"whole{number}").glob("[!.]*")
        files = {p.name: p.read_bytes() for p in whole.iterdir()}
    rng = random.Random(0)
    finished = 0
    # Twice into each folder, one by one process and one by two.
    for i in range(6):
        # The process alone: those that it has started end by themselves.
        number = 1 + i % 2
        process = start(root / str(i % 3), number)
        time.sleep(rng.uniform(0, 0.9 * durations[number]))
        process.kill()
        process.wait()
        process.stdout.close()
        for folder in (root / str(i % 3)).glob("[!.]*"):
            finished += 1
            assert {p.name: p.read_bytes() for p in folder.iterdir()} == files
            shutil.rmtree(folder)
    # Some came in time.
    assert finished < 6
    for i in range(3):
        loaded = corpus.load(
            corpus.Options(str(path), tokens="words"), root / str(i)
        )
        found = {p.name: p.read_bytes() for p in loaded.folder.iterdir()}
        assert found == files
        assert not list((root / str(i)).glob(".unfinished*"))
    # No process is left over.
    deadline = time.monotonic() + 20
    while _processes_with(str(path)) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert not _processes_with(str(path))


def _processes_with(text):
    found = []
    for path in pathlib.Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if text.encode() in path.read_bytes():
                found.append(path.parent.name)
        except OSError:
            continue
    return [pid for pid in found if int(pid) != os.getpid()]


def test_ctrl_c_ends_all_processes(tmp_path):
    """Also while results are large, at any moment."""
    path = tmp_path / "text"
    with open(path, "w") as file:
        for i in range(400_000):
            file.write(f"word{i} word{i} once{i}\n")
    script = tmp_path / "read.py"
    script.write_text(
        "import sys; from examples.corpora import corpus, making\n"
        "making._CHUNK = 1_000_000\n"
        "if __name__ == '__main__':\n"
        "    print('begin', flush=True)\n"
        "    options = corpus.Options(sys.argv[1], tokens='words')\n"
        "    corpus.load(options, sys.argv[2], 2)\n"
    )
    rng = random.Random(3)
    interrupted = 0
    for i in range(3):
        process = subprocess.Popen(
            [sys.executable, script, path, tmp_path / f"cache{i}"],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": os.getcwd()},
            start_new_session=True,
        )
        process.stdout.readline()
        time.sleep(rng.uniform(0.1, 0.6))
        # The terminal sends it to all.
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGINT)
        _, error = process.communicate(timeout=60)
        assert error.count(b"Traceback") <= 1
        interrupted += b"KeyboardInterrupt" in error
        assert not list((tmp_path / f"cache{i}").glob(".unfinished*"))
    assert interrupted
