"""Texts of published size: what is written, and what is said of it."""

import dataclasses
import json
import math
import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

from examples.common import program
from examples.corpora.synthetic import class_chain, drawing, pseudo_words
from examples.corpora.synthetic import texts as synthetic
from examples.corpora.synthetic import write as command

SMALL = class_chain.Law(
    num_words=640, exponent=1.1, shift=2.0, num_classes=16, restart=0.2
)
SIZES = {
    "text8": dataclasses.replace(
        synthetic._SIZES["text8"], law=SMALL, characters=200_000, words=36_000
    ),
    "1bw": dataclasses.replace(
        synthetic._SIZES["1bw"],
        law=dataclasses.replace(SMALL, end=0.04),
        words=100_001,
        held_out_words=1003,
    ),
}


@pytest.fixture
def small(monkeypatch):
    for name, size in SIZES.items():
        monkeypatch.setitem(synthetic._SIZES, name, size)


def write(name, folder, **options):
    return synthetic.write(name, folder, log=lambda line: None, **options)


def expected_words(size, count, share=1.0):
    """Expected number of words that occur `count` times or more."""
    law = size.law
    rates = (np.arange(1, law.num_words + 1) + law.shift) ** -law.exponent
    rates *= size.words * share / rates.sum()
    term, fewer = np.exp(-rates), 0
    for k in range(count):
        fewer = fewer + term
        term = term * rates / (k + 1)
    return (1 - fewer).sum()


def test_laws_have_the_published_sizes():
    """The laws of text8, and of the 30,301,028 training lines of 1bw."""
    text8, news = (synthetic._SIZES[name] for name in ("text8", "1bw"))
    assert expected_words(text8, 1) == pytest.approx(253_854, rel=1e-3)
    assert expected_words(text8, 11, 0.99) == pytest.approx(44_370, rel=1e-3)
    assert expected_words(news, 1) == pytest.approx(2_425_337, rel=1e-3)
    assert expected_words(news, 3) == pytest.approx(793_468, rel=1e-3)
    assert news.words * news.law.end == pytest.approx(30_301_028, rel=1e-3)
    for size, characters in ((text8, 100_000_000), (news, 4_147_303_432)):
        law = size.law
        sizes = 1 + pseudo_words._lengths(law.num_words, size.letters)
        probs = (np.arange(1, law.num_words + 1) + law.shift) ** -law.exponent
        assert sizes @ probs / probs.sum() * size.words == pytest.approx(
            characters, rel=1e-3
        )


class Reader:
    """Perplexities of files, from their text and the law alone."""

    def __init__(self, size, seed=1):
        law = size.law
        self.chain = class_chain.ClassChain(law, seed)
        self.probs = (np.arange(law.num_words) + 1 + law.shift) ** -law.exponent
        self.probs /= self.probs.sum()
        self.class_of = np.empty(law.num_words, int)
        for c, members in enumerate(self.chain.members):
            self.class_of[members] = c
        spellings = pseudo_words.Spellings(law.num_words, size.letters)
        self.rank = {spellings[r]: r for r in range(law.num_words)}

    def nats(self, lines):
        """Per token, a line end being one if there is any."""
        end, total, tokens = self.chain.law.end, 0, 0
        for line in lines:
            before = None
            for word in line.split():
                rank = self.rank[word]
                c = self.class_of[rank]
                prob = self.probs[rank]
                if before is not None:
                    prob *= 1 - end
                    prob *= self.chain.transitions[before, c]
                    prob /= self.chain.class_probs[c]
                before = c
                total -= math.log(prob)
                tokens += 1
            if end:
                total -= math.log(end)
                tokens += 1
        return total / tokens


def test_one_line_text(small, tmp_path):
    written = write("text8", tmp_path)
    assert written.path.name == "text8"
    text = written.path.read_text()
    assert len(text) == 200_000
    assert "\n" not in text
    words = text.rstrip(" ")
    assert len(words) > 200_000 - 1 - pseudo_words.MAX_LETTERS
    assert "  " not in words
    report = json.loads(written.report.read_text())
    parts = report["parts"]
    assert sum(part["words"] for part in parts.values()) == len(words.split())
    assert report["files"] == {"text8": 200_000}

    # A hundred sections, each of which begins as the text does.
    sections, begin = report["sections"], 0
    pieces = []
    for i, section in enumerate(sections):
        pieces.append(text[begin : begin + section["characters"]])
        begin += section["characters"]
        assert 0 <= 2000 * (i + 1) - begin <= pseudo_words.MAX_LETTERS
        assert len(pieces[-1].split()) == section["words"]
    reader = Reader(SIZES["text8"])
    for part, held in (
        ("train", pieces[:90]),
        ("valid", pieces[90:95]),
        ("test", pieces[95:]),
    ):
        said = parts[part]
        assert said["nats_per_token"] == pytest.approx(reader.nats(held))
        assert said["perplexity"] == pytest.approx(
            math.exp(said["nats_per_token"])
        )
        assert said["bits_per_token"] == pytest.approx(
            math.log2(said["perplexity"])
        )
        tokens = " ".join(held).split()
        assert said["distinct_words"] == len(set(tokens))
        assert said["tokens"] == said["words"] == len(tokens)
        unigram = np.log(reader.probs[[reader.rank[w] for w in tokens]])
        assert said["unigram_perplexity"] == pytest.approx(
            math.exp(-unigram.mean())
        )
    # What is expected, and what is measured on 36,000 words.
    entropy, of_unigrams = reader.chain.entropy()
    assert report["entropy"]["nats_per_token"] == pytest.approx(entropy)
    assert parts["train"]["nats_per_token"] == pytest.approx(entropy, rel=0.02)
    assert math.log(report["entropy"]["unigram_perplexity"]) == pytest.approx(
        of_unigrams
    )

    # Vocabularies are counted in the part "train".
    counts = np.bincount(
        [reader.rank[w] for w in " ".join(pieces[:90]).split()], minlength=640
    )
    for vocabulary in report["vocabularies"]:
        known = counts >= vocabulary["min_count"]
        assert vocabulary["words"] == known.sum()
        assert vocabulary["unknown_share"] == pytest.approx(
            counts[~known].sum() / counts.sum()
        )
        assert vocabulary["nats_per_token"] == pytest.approx(
            reader.chain.entropy(known)[0]
        )


def test_files_of_sentences(small, tmp_path):
    written = write("1bw", tmp_path)
    folder = written.path / "training-monolingual.tokenized.shuffled"
    train = sorted(folder.iterdir())
    assert [path.name for path in train] == [
        f"news.en-{i:05}-of-00100" for i in range(1, 100)
    ]
    folder = written.path / "heldout-monolingual.tokenized.shuffled"
    held_out = sorted(folder.iterdir())
    assert [path.name for path in held_out] == [
        f"news.en.heldout-{i:05}-of-00050" for i in range(50)
    ]
    report = json.loads(written.report.read_text())
    reader = Reader(SIZES["1bw"])
    for part, files in (
        ("train", train),
        ("valid", held_out[1:]),
        ("test", held_out[:1]),
    ):
        lines = "".join(path.read_text() for path in files).splitlines()
        assert all(lines)
        said = report["parts"][part]
        assert said["lines"] == len(lines)
        assert said["words"] == sum(len(line.split()) for line in lines)
        assert said["tokens"] == said["words"] + said["lines"]
        assert said["nats_per_token"] == pytest.approx(reader.nats(lines))
    assert report["parts"]["train"]["words"] == 100_001
    assert report["parts"]["test"]["words"] == 1003
    # The last sentence of a file is cut.
    assert report["parts"]["train"]["lines"] == pytest.approx(4100, rel=0.05)
    for section in report["sections"]:
        size = (written.path / section["file"]).stat().st_size
        assert size == section["characters"] == report["files"][section["file"]]


def contents(folder):
    return {
        path.relative_to(folder): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


@pytest.mark.parametrize("name", ("text8:0.5", "1bw"))
def test_threads_do_not_matter_but_the_seed_does(
    small, name, tmp_path, monkeypatch
):
    monkeypatch.setattr(drawing, "_BLOCK_WORDS", 601)
    folders = [
        write(name, tmp_path / f"{i}", seed=seed, threads=threads).report.parent
        for i, (seed, threads) in enumerate(((5, 1), (5, 3), (6, 3)))
    ]
    first, second, other = map(contents, folders)
    assert first == second
    assert first.keys() == other.keys()
    assert not set(first.values()) & set(other.values())


def test_a_fraction(small, tmp_path):
    assert write("text8:0.25", tmp_path).path.stat().st_size == 50_000
    report = json.loads(write("1bw:0.1", tmp_path).report.read_text())
    assert report["parts"]["train"]["words"] == 10_000
    assert report["parts"]["test"]["words"] == 100
    names = sorted(p.name for p in tmp_path.iterdir() if p.name[0] != ".")
    assert names == ["synthetic-1bw-0.1-seed1", "synthetic-text8-0.25-seed1"]


def test_a_billion_words():
    sections = synthetic._news(synthetic._SIZES["billion"], 1)
    train = [section for section in sections if section.part == "train"]
    assert sum(section.words for section in train) == 1_000_000_000
    assert len(train) == 99


def test_what_is_whole_is_not_made_again(small, tmp_path):
    written = write("1bw:0.01", tmp_path)
    before = contents(tmp_path)

    def inodes():
        return {p: p.stat().st_ino for p in written.path.rglob("*")}

    first = inodes()
    assert write("1bw:0.01", tmp_path) == written
    assert inodes() == first
    # A file that has lost its end, or is lost.
    file = written.path / "training-monolingual.tokenized.shuffled"
    file /= "news.en-00007-of-00100"
    for damage in (lambda: os.truncate(file, 10), file.unlink):
        damage()
        assert write("1bw:0.01", tmp_path) == written
        assert contents(tmp_path) == before
    # Another version of what is written.
    report = json.loads(written.report.read_text())
    report["parameters"]["version"] = -1
    written.report.write_text(json.dumps(report))
    write("1bw:0.01", tmp_path)
    assert contents(tmp_path) == before


def test_another_folder_is_not_replaced(small, tmp_path):
    folder = tmp_path / "synthetic-text8-seed1"
    folder.mkdir()
    (folder / "mine").write_text("text")
    with pytest.raises(
        FileExistsError, match=r"without the entropy\.json of a"
    ):
        write("text8", tmp_path)
    assert (folder / "mine").read_text() == "text"


@pytest.mark.parametrize(
    "name",
    (
        *("", "text9", "text8:", "text8:0", "text8:1.1", "text8:-1", "text8:x"),
        *("text8:nan", "1bw:0.00001", ":0.1", "text8:0.1:0.1"),
    ),
)
def test_bad_names(name, tmp_path):
    with pytest.raises(
        ValueError,
        match=f"--corpus=synthetic:{name}: .*names are text8, 1bw, billion, ",
    ):
        write(name, tmp_path)
    assert not list(tmp_path.iterdir())


def test_a_full_disk(small, tmp_path, monkeypatch):
    usage = synthetic.shutil.disk_usage(tmp_path)._replace(free=199_999)
    monkeypatch.setattr(synthetic.shutil, "disk_usage", lambda path: usage)
    with pytest.raises(OSError, match=r"has 0\.0 GB free, and the text "):
        write("text8", tmp_path)
    assert write("text8:0.9", tmp_path).path.exists()


def test_a_kill_leaves_nothing_that_seems_whole(tmp_path):
    code = (
        "from examples.corpora.synthetic import texts as synthetic;"
        f"synthetic.write('text8:0.05', {str(tmp_path)!r}, threads=1)"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.DEVNULL
    )
    partial = tmp_path / "synthetic-text8-0.05-seed1.partial"
    try:
        while not (partial / "text8").exists():
            assert process.poll() is None
            time.sleep(0.001)
        process.send_signal(signal.SIGKILL)
    finally:
        process.kill()
        process.wait()
    assert [p for p in tmp_path.iterdir() if p.name[0] != "."] == [partial]
    written = write("text8:0.05", tmp_path)
    assert written.path.stat().st_size == 5_000_000
    assert not partial.exists()


def test_progress_is_said_now_and_then(small, tmp_path, monkeypatch):
    monkeypatch.setattr(drawing, "_SECONDS_BETWEEN_LINES", 0)
    lines = []
    synthetic.write("text8", tmp_path, log=lines.append)
    assert "Writing synthetic:text8 to " in lines[0]
    assert len(lines) == 101
    assert lines[-1].endswith("million words, 0 s left")


def test_program(small, tmp_path, capsys):
    def run(*arguments):
        program.run(
            command.main,
            command.flags,
            ["write_synthetic", *arguments],
            tensorflow=False,
        )

    run(f"--folder={tmp_path}", "--corpus=synthetic:text8:0.5", "--seed=3")
    printed = capsys.readouterr().out
    report = tmp_path / "synthetic-text8-0.5-seed3" / "entropy.json"
    report = json.loads(report.read_text())
    perplexity = report["entropy"]["perplexity"]
    assert f"No model's perplexity is below {perplexity:.2f}" in printed
    assert f"{report['parts']['train']['words']:,}" in printed
    for arguments, message in (
        ((), "--folder=FOLDER says where"),
        ((f"--folder={tmp_path}", "--corpus=no"), "there is no such text"),
        ((f"--folder={tmp_path}", "--seed=-1"), "seed"),
    ):
        with pytest.raises(SystemExit, match=message):
            run(*arguments)
