"""Word vectors that are means of n-grams' vectors, as in fastText."""

import json
import math
import re
import zipfile

import numpy as np
import pytest

from examples.common import program
from examples.word2vec import (
    checkpoint,
    formats,
    model,
    ngrams,
    query,
    run,
    settings,
    subwords,
    tables,
    windows,
)
from tests.support import word2vec_runs
from tests.support.word2vec_runs import (
    assert_near,
    check_resumed,
    command,
    random_model,
    write_topics,
)


def fnv_1a(text):
    """FastText's `Dictionary::hash`: of int8_t, cast to uint32_t."""
    value = 2166136261
    for byte in text.encode():
        signed = byte - 256 if byte >= 128 else byte
        value ^= signed % 2**32
        value = value * 16777619 % 2**32
    return value


def test_hash_is_fnv_1a():
    """ASCII texts have the published values of 32-bit FNV-1a."""
    assert fnv_1a("a") == 0xE40C292C
    assert fnv_1a("foobar") == 0xBF9CF968
    # All n-grams of 6 characters of "<foobar>".
    found = subwords.buckets("foobar", 6, 6, 2**32)
    assert found == [fnv_1a("<fooba"), 0xBF9CF968, fnv_1a("oobar>")]


@pytest.mark.parametrize(
    ("word", "min_n", "max_n", "expected"),
    [
        ("as", 3, 6, "<as <as> as>"),
        ("as", 1, 2, "<a a as s s>"),
        ("a", 5, 6, ""),
        ("été", 3, 4, "<ét <été été été> té>"),
        ("日本", 1, 3, "<日 <日本 日 日本 日本> 本 本>"),
        ("aaaa", 3, 3, "<aa aaa aaa aa>"),
        ("\U0001f600", 2, 6, "<\U0001f600 <\U0001f600> \U0001f600>"),
    ],
)
def test_ngrams_are_of_characters(word, min_n, max_n, expected):
    found = subwords.buckets(word, min_n, max_n, 1009)
    assert found == [fnv_1a(ngram) % 1009 for ngram in expected.split()]


def test_bags_have_rows_for_used_buckets_only():
    words = ["cat", "cats", "日", "e"]
    chosen = make_settings(min_n=3, max_n=4, buckets=50)
    made = subwords.bags(words, chosen)
    assert made.num_rows == len(words) + len(made.buckets)
    used = set()
    for i, word in enumerate(words):
        own, *others = made.rows[made.splits[i] : made.splits[i + 1]]
        asked = subwords.buckets(word, 3, 4, 50)
        used.update(asked)
        assert own == i
        assert made.buckets[np.array(others) - len(words)].tolist() == asked
    assert made.buckets.tolist() == sorted(used)
    # No word has an n-gram: a bag is the word.
    alone = subwords.bags(words, make_settings(min_n=9, max_n=9))
    assert alone.rows.tolist() == [0, 1, 2, 3] and not len(alone.buckets)
    assert subwords.bags(words, make_settings(max_n=0)) is None


def make_settings(**changes):
    """Those of `word2vec_runs`, with n-grams."""
    return word2vec_runs.make_settings(**{"max_n": 6, **changes})


@pytest.mark.parametrize("architecture", settings.ARCHITECTURES)
@pytest.mark.parametrize("optimizer", ["sgd", "rowwise_adagrad"])
def test_steps_against_the_formulas(architecture, optimizer):
    words = ["cat", "cats", "at", "日本", "aaaaa"]
    chosen = make_settings(
        architecture=architecture, optimizer=optimizer, buckets=20
    )
    made = subwords.bags(words, chosen)
    counts = np.array([9, 5, 4, 2, 2])
    trained, reference = random_model(counts, chosen, made)
    rng = np.random.default_rng(2)
    labels = rng.integers(5, size=10).astype(np.int32)  # a batch of 7, one of 3
    sizes = rng.integers(1, 4, 10) if architecture == "cbow" else np.ones(10)
    splits = np.append(0, np.cumsum(sizes)).astype(np.int32)
    contexts = rng.integers(5, size=splits[-1]).astype(np.int32)
    members = np.split(made.rows, made.splits[1:-1])
    bags = [
        np.concatenate([members[w] for w in window])
        for window in np.split(contexts, splits[1:-1])
    ]
    losses = reference.step(bags[:7], labels[:7], 0.05)
    losses += reference.step(bags[7:], labels[7:], 0.05)
    examples = [contexts, labels]
    if architecture == "cbow":
        examples.insert(1, splits)
    assert trained.train(examples, 0.05) == pytest.approx(sum(losses), rel=1e-5)
    assert_near(trained, reference)


def test_means_are_made_in_blocks(monkeypatch):
    monkeypatch.setattr(tables, "_BLOCK", 400)
    words = [f"word{i}" * (1 + i % 3) for i in range(11)]
    made = subwords.bags(words, make_settings())
    trained = model.Model(np.arange(11, 0, -1), make_settings(), made)
    table = trained.vectors.numpy().astype(np.float64)
    expected = [
        table[rows].mean(0) for rows in np.split(made.rows, made.splits[1:-1])
    ]
    blocks = list(tables.blocks(trained.vectors, bags=trained.bags))
    assert len(blocks) > 1
    np.testing.assert_allclose(np.concatenate(blocks), expected, atol=1e-7)
    some = tables.first_rows(trained.vectors, 5, trained.bags)
    np.testing.assert_allclose(some, expected[:5], atol=1e-7)


@pytest.fixture(scope="module")
def corpus_file(tmp_path_factory):
    """Sentences of which each is about one of three things."""
    topics = [
        [f"{stem}{chr(97 + k)}" for k in range(20)]
        for stem in ("garden", "physic", "museum")
    ]
    return write_topics(tmp_path_factory.mktemp("text"), topics)


@pytest.mark.parametrize(
    ("architecture", "optimizer"),
    # The other pairs: word2vec_test.
    [("cbow", "rowwise_adagrad"), ("skip_gram", "sgd")],
)
def test_program(corpus_file, tmp_path, capsys, architecture, optimizer):
    asked = "--neighbours=gardena,museumx,xyz"
    command(
        *(f"--corpus={corpus_file}", f"--save_dir={tmp_path}", "--width=16"),
        *(f"--architecture={architecture}", f"--optimizer={optimizer}"),
        *("--learning_rate=0.1", "--batch_size=32", "--epochs=8"),
        *("--max_n=5", "--buckets=100000", asked, "--num_neighbours=5"),
    )
    out = capsys.readouterr().out
    losses = re.findall(r"^epoch \d/8: loss ([\d.]+)$", out, re.M)
    assert len(losses) == 8
    # log 60 = 4.1 for a word of any topic, log 20 = 3.0 for one of the right.
    assert float(losses[-1]) < min(float(losses[0]), 3.4)
    check_neighbours(out)
    words, vectors = formats.read(tmp_path / "vectors.bin")
    assert len(words) == 61 and vectors.shape == (61, 16)
    vectors = ["query", f"--vectors={tmp_path}/vectors.bin", asked]
    program.run(
        *(query.main, query.flags),
        [*vectors, f"--ngrams={tmp_path}/ngrams.npz", "--num_neighbours=5"],
    )
    check_neighbours(capsys.readouterr().out)
    program.run(query.main, query.flags, vectors)
    assert "museumx  (not among these 61" in capsys.readouterr().out


def check_neighbours(out):
    """All five nearest are about the same thing, also of an unknown word."""
    (line,) = re.findall(r"^  gardena  (.*)$", out, re.M)
    assert re.fullmatch(r"(garden[b-t] [01]\.\d\d *){5}", line)
    (line,) = re.findall(r"^  museumx  \(by its n-grams\)  (.*)$", out, re.M)
    assert re.fullmatch(r"(museum[a-t] [01]\.\d\d *){5}", line)
    assert "xyz      (not among these 61 words)" in out


@pytest.mark.parametrize("architecture", settings.ARCHITECTURES)
def test_resumed_run_ends_with_the_same_bits(
    corpus_file, tmp_path, monkeypatch, architecture
):
    monkeypatch.setattr(windows, "SLICE", 6000)
    chosen = make_settings(
        corpus=str(corpus_file), architecture=architecture, batch_size=300
    )
    job = check_resumed(chosen, tmp_path)
    # What is written are the means, and the vectors of n-grams.
    job.write(["text"])
    members = np.split(job.bags.rows, job.bags.splits[1:-1])
    np.testing.assert_allclose(
        formats.read(tmp_path / "parts" / "vectors.txt")[1],
        [job.model.vectors.numpy()[rows].mean(0) for rows in members],
        atol=1e-6,
    )
    found = ngrams.read(tmp_path / "parts" / ngrams.FILE)
    table = job.model.vectors.numpy()
    np.testing.assert_array_equal(found.vectors, table[len(job.text.words) :])
    unknown = [
        found.vectors[found.buckets == b]
        for b in subwords.buckets("museumx", 3, 6, 2_000_000)
        if b in found.buckets
    ]
    assert 0 < len(unknown) < 18
    np.testing.assert_allclose(
        found.vector("museumx"), np.concatenate(unknown).mean(0), atol=1e-6
    )
    assert found.vector("xyz") is None and found.vector("") is None


def test_runs_from_before_are_resumed(corpus_file, tmp_path):
    """Their settings know no n-grams."""
    chosen = make_settings(corpus=str(corpus_file), max_n=0)
    job = run.prepare(chosen, tmp_path)
    job.train(deadline=-math.inf)
    with zipfile.ZipFile(tmp_path / checkpoint.FILE) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    state = json.loads(members["word2vec.json"])
    for name in "min_n", "max_n", "buckets":
        del state["settings"][name]
    members["word2vec.json"] = json.dumps(state)
    with zipfile.ZipFile(tmp_path / checkpoint.FILE, "w") as archive:
        for name, data in members.items():
            archive.writestr(name, data)
    again = run.prepare(chosen, tmp_path, resume=True)
    assert again.state == job.state and again.ngrams() is None
    with pytest.raises(ValueError, match="--max_n: 0 before, 6 now"):
        run.prepare(make_settings(corpus=str(corpus_file)), tmp_path, True)


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--max_n=-1"], "--max_n=-1: must be at least 0."),
        (["--min_n=3"], "--min_n=3: needs --max_n too, such as --max_n=6."),
        (["--buckets=9"], "--buckets=9: needs --max_n too"),
        (["--max_n=4", "--min_n=5"], "--min_n=5: must be at most --max_n, 4."),
        (["--max_n=4", "--buckets=-1"], "--buckets=-1: must be at least 0."),
    ],
)
def test_bad_flags(corpus_file, tmp_path, flags, message):
    with pytest.raises(SystemExit, match=f"^error: {re.escape(message)}"):
        command(f"--corpus={corpus_file}", f"--save_dir={tmp_path}", *flags)


def test_defaults_are_those_of_fasttext():
    filled = settings.Settings(max_n=6)
    assert (filled.min_n, filled.buckets) == (3, 2_000_000)
    assert settings.Settings(max_n=2).min_n == 2
    # The settings of a run to resume are filled in already.
    assert settings.Settings(**vars(filled)) == filled


def test_bad_files_of_ngrams(tmp_path):
    vectors = tmp_path / "v.bin"
    one = np.ones([1, 3], np.float32)
    formats.write("binary", vectors, ["a"], [1], [one])

    def error_of(path):
        arguments = ["query", f"--vectors={vectors}", f"--ngrams={path}"]
        with pytest.raises(SystemExit) as error:
            program.run(query.main, query.flags, arguments)
        return str(error.value)

    table = ngrams.Ngrams(3, 6, 50, np.array([7]), np.ones([1, 4]))
    ngrams.write(tmp_path / "wide.npz", table)
    assert "has vectors of 4 numbers, those of --vectors have 3" in error_of(
        tmp_path / "wide.npz"
    )
    np.savez(tmp_path / "other.npz", min_n=3)
    (tmp_path / "cut.npz").write_bytes(
        (tmp_path / "wide.npz").read_bytes()[:300]
    )
    (tmp_path / "empty.npz").write_bytes(b"")
    np.save(tmp_path / "array.npy", one)
    for name in "other.npz", "cut.npz", "empty.npz", "array.npy", "v.bin":
        assert "holds no n-grams that this program" in error_of(tmp_path / name)
    assert "No such file" in error_of(tmp_path / "none.npz")
