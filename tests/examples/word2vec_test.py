"""Training of word vectors, on texts of seconds."""

import collections
import random
import re

import numpy as np
import pytest

from examples.common import program
from examples.word2vec import settings, text, train, windows


@pytest.fixture(scope="module")
def corpus_file(tmp_path_factory):
    """Sentences of which each is about one of three things."""
    rng = random.Random(0)
    topics = [[f"{topic}{k}" for k in range(20)] for topic in "abc"]
    lines = []
    for i in range(1500):
        lines.append(" ".join(["the", *rng.choices(topics[i % 3], k=9)]))
        if i % 50 == 0:
            lines.append(f"rare{i}")
    path = tmp_path_factory.mktemp("text") / "text.txt"
    path.write_text("\n".join(lines))
    return path


def command(*arguments):
    program.run(train.main, train.flags, ["train", *arguments])


@pytest.mark.parametrize(
    ("architecture", "optimizer"),
    [("cbow", "sgd"), ("skip_gram", "rowwise_adagrad")],
)
def test_program(corpus_file, tmp_path, capsys, architecture, optimizer):
    path = tmp_path / "vectors.bin"
    command(
        *(f"--corpus={corpus_file}", f"--output={path}", "--width=16"),
        *(f"--architecture={architecture}", f"--optimizer={optimizer}"),
        *("--learning_rate=0.1", "--batch_size=32", "--epochs=8"),
        *("--neighbours=a1,c5,d1", "--num_neighbours=5"),
    )
    out = capsys.readouterr().out
    losses = re.findall(r"^epoch \d/8: loss ([\d.]+)$", out, re.M)
    # log 60 = 4.1 for a word of any topic, log 20 = 3.0 for one of the right.
    assert float(losses[-1]) < min(float(losses[0]), 3.4)
    # All five nearest are about the same thing.
    for name in "a1", "c5":
        (line,) = re.findall(rf"^  {name}  (.*)$", out, re.M)
        assert re.sub(r"[\d. ]", "", line) == 5 * name[0]
    assert "d1  (not among these 61 words)" in out
    # What word2vec.c's fprintf("%s ") and fwrite(float) write.
    head, vectors = path.read_bytes().split(b"\n", 1)
    assert head == b"61 16" and vectors.startswith(b"the ")
    words = re.findall(rb"(\w+) (.{64})\n", vectors, re.S)
    values = {word: np.frombuffer(row, "<f4") for word, row in words}
    assert len(values) == 61
    cosine = np.corrcoef([values[b"a1"], values[b"a2"], values[b"b1"]])[0]
    assert cosine[1] > cosine[2]


def test_gensim_reads_the_file(corpus_file, tmp_path):
    models = pytest.importorskip("gensim.models")
    path = tmp_path / "vectors.bin"
    command(f"--corpus={corpus_file}", f"--output={path}", "--epochs=1")
    found = models.KeyedVectors.load_word2vec_format(path, binary=True)
    assert len(found) == 61 and found.index_to_key[0] == "the"


@pytest.mark.parametrize("min_count", [1, 5])
def test_no_word_is_rare(tmp_path, capsys, min_count):
    """Walks over a graph of 50 nodes, each of which occurs 100 times or so."""
    rng, walks = random.Random(0), []
    for _ in range(300):
        start = rng.randrange(50)
        walks.append(" ".join(f"{(start + i) % 50}" for i in range(20)))
    path, output = tmp_path / "walks.txt", tmp_path / "vectors.bin"
    path.write_text("\n".join(walks))
    flags = f"--min_count={min_count}", "--width=8", "--epochs=1"
    command(f"--corpus={path}", f"--output={output}", *flags)
    assert output.read_bytes().startswith(b"50 8\n")
    shown = capsys.readouterr().out
    assert re.search(r"^  \d+ +\d+ -?[01]\.\d\d ", shown, re.M)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--corpus=nowhere"], "there are no such files"),
        (["--min_count=0"], "--min_count=0: must be at least 1"),
        (["--optimizer=sgd", "--learning_rate=1e9"], "lower --learning_rate"),
    ],
)
def test_errors_are_one_line(corpus_file, tmp_path, arguments, message):
    with pytest.raises(SystemExit) as error:
        command(f"--corpus={corpus_file}", f"--output={tmp_path}", *arguments)
    assert re.match(rf"\s?error: .*{re.escape(message)}", str(error.value))


def pairs_one_by_one(words, sentences, reaches):
    """Yields (other, middle) by the definition of a window."""
    for i, reach in enumerate(reaches):
        for j in range(i - reach, i + reach + 1):
            if j != i and 0 <= j < len(words) and sentences[i] == sentences[j]:
                yield words[j], words[i]


@pytest.mark.parametrize("num_words", [0, 1, 61])
def test_windows_against_loops(num_words):
    rng = np.random.default_rng(num_words)
    words = rng.integers(9, size=num_words).astype(np.int32)
    sentences = np.sort(rng.integers(1 + num_words // 7, size=num_words))
    reaches = rng.integers(1, 6, num_words)
    order = rng.permutation(num_words)
    places = windows.neighbours(sentences, reaches, order)
    expected = collections.Counter(pairs_one_by_one(words, sentences, reaches))
    contexts, labels = windows.skip_gram(words, *places, rng)
    assert collections.Counter(zip(contexts, labels, strict=True)) == expected
    contexts, splits, labels = windows.cbow(words, *places, rng)
    repeated = np.repeat(labels, np.diff(splits))
    assert collections.Counter(zip(contexts, repeated, strict=True)) == expected


def test_reaches_and_chances_are_as_often_as_said(monkeypatch):
    """In a text of one word, the sizes of windows show their reaches."""
    monkeypatch.setattr(windows, "SLICE", 1 << 20)
    classes = np.zeros(200_000, np.int32)
    word = np.zeros(1, np.int32)
    source = text.Text(("a",), np.array([len(classes)]), classes, word)
    chosen = settings.Settings(architecture="cbow", window=4, sample=0.25)
    piece = windows.Windows(source, chosen).slice(0, 0)
    assert piece.num_words == len(classes)
    sizes, counts = np.unique(np.diff(piece.examples[1]), return_counts=True)
    shares = dict(zip(sizes.tolist(), counts / counts.sum(), strict=True))
    for size in 2, 4, 6, 8:
        assert shares[size] == pytest.approx(0.25, abs=0.01)
    assert counts.sum() / len(classes) == pytest.approx(0.75, abs=0.01)
