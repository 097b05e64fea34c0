"""Each published form, read from files of its exact shape."""

import gzip
import itertools
import random
import re
import sys
import types

import numpy as np
import pytest

from examples.corpora import corpus, formats, texts

WORDS = [f"{a}{b}" for a in "bdfgklmn" for b in ("a", "e", "io", "ur")]


@pytest.fixture
def load(tmp_path):
    """A function from a path and options to a `Corpus`, with its own cache."""

    def load(path, **options):
        loaded = corpus.load(
            corpus.Options(str(path), **options), tmp_path / "cache"
        )
        # Never the same text twice.
        assert len({text(loaded, part) for part in formats.PARTS}) == 3
        return loaded

    return load


def text(loaded, part):
    """A part as a string of its words."""
    return " ".join(loaded.words[c] for c in getattr(loaded, part))


def sentences(num, seed=0):
    """Lines of words, one in ten with a word that is seen once."""
    rng = random.Random(seed)
    lines = []
    for i in range(num):
        line = rng.choices(WORDS, k=rng.randint(1, 9))
        if i % 10 == 0:
            line.append("once" + "".join(rng.choices("xyz", k=12)))
        lines.append(" ".join(line))
    return lines


def expect(lines, known, end):
    """The words of lines, each with its end; rare ones are unknown."""
    return " ".join(
        word if word in known else "<unk>"
        for line in lines
        for word in [*line.split(), end]
    )


def test_text8(tmp_path, load):
    words = " ".join(sentences(3000)).split()
    path = tmp_path / "text8"
    path.write_text(" " + " ".join(words))  # as the published one begins
    loaded = load(path)
    assert (loaded.format, loaded.tokens) == ("text8", "words")
    assert loaded.boundary is None
    parts = [text(loaded, part).split() for part in formats.PARTS]
    sizes = [0, *np.cumsum([len(part) for part in parts])]
    assert sizes[-1] == len(words)
    known = set(loaded.words)
    assert list(itertools.chain(*parts)) == [
        w if w in known else "<unk>" for w in words
    ]
    for share, size in zip((0.9, 0.95), sizes[1:3], strict=True):
        assert size == int(share * len(words))
    # One that ends with a line break is text8 too; one of two lines is not.
    path.write_text(" ".join(words) + "\n")
    assert load(path).format == "text8"
    path.write_text("\n".join(sentences(3000)))
    assert load(path).format == "documents"


@pytest.mark.parametrize(
    "names",
    (
        ("wiki.train.tokens", "wiki.valid.tokens", "wiki.test.tokens"),
        ("ptb.train.txt", "ptb.valid.txt", "ptb.test.txt"),
        ("train.txt", "dev.txt", "test.txt"),
        ("train.en.gz", "validation.en.gz", "test.en.gz"),
    ),
)
def test_folders_with_parts(tmp_path, load, names):
    """Empty lines count, as in the published numbers of tokens."""
    folder = tmp_path / "data"
    folder.mkdir()
    lines = {}
    for i, (part, name) in enumerate(zip(formats.PARTS, names, strict=True)):
        some = sentences(300 - 50 * i, i)
        lines[part] = [" ", " = Title = ", *some[:5], "a <unk> b", *some[5:]]
        data = "".join(f"{line}\n" for line in lines[part]).encode()
        data = gzip.compress(data) if name.endswith(".gz") else data
        (folder / name).write_bytes(data)
    (folder / "README").write_text("not part of it")
    loaded = load(folder)
    assert loaded.format == "parts"
    for part in formats.PARTS:
        assert text(loaded, part) == expect(
            lines[part], set(loaded.words), "<eos>"
        )
    # The text's own <unk> is enough.
    assert load(folder, min_count=1).counts[-1] >= 1


def test_parts_that_are_not_clear(tmp_path, load):
    folder = tmp_path / "data"
    folder.mkdir()
    for i, name in enumerate(("train", "test", "train_test")):
        (folder / f"{name}.txt").write_text("\n".join(sentences(300, i)))
    with pytest.raises(ValueError, match="no file of the valid part among 3"):
        load(folder)
    assert load(folder, format="documents").format == "documents"
    # The name of a file has one part at most.
    (folder / "valid.txt").write_text("\n".join(sentences(100, 3)))
    loaded = load(folder)
    assert loaded.format == "parts"
    assert text(loaded, "train").count("<eos>") == 300
    # A pattern is a folder of its files.
    for i, name in enumerate(("train", "valid", "test")):
        (folder / f"char.{name}.txt").write_text("\n".join(sentences(90, i)))
    few = load(folder / "char.*.txt", min_count=3)
    assert few.format == "parts"
    assert text(few, "train").count("<eos>") == 90


def test_one_billion_words(tmp_path, load):
    root = tmp_path / "1-billion-word"
    train = root / "training-monolingual.tokenized.shuffled"
    held_out = root / "heldout-monolingual.tokenized.shuffled"
    lines = {}
    for folder, pattern, numbers in (
        (train, "news.en-{:05}-of-00100", (1, 2, 99)),
        (held_out, "news.en.heldout-{:05}-of-00050", (0, 1, 2)),
    ):
        folder.mkdir(parents=True)
        for i in numbers:
            name = pattern.format(i)
            lines[name] = sentences(200, name)
            (folder / name).write_text("\n".join(lines[name]) + "\n")
    loaded = load(root)
    assert loaded.format == "one_billion_words"
    known = set(loaded.words)
    parts = {
        "train": [f"news.en-{i:05}-of-00100" for i in (1, 2, 99)],
        "valid": ["news.en.heldout-00001-of-00050"],
        "test": ["news.en.heldout-00000-of-00050"],
    }
    for part, names in parts.items():
        expected = [line for name in names for line in lines[name]]
        assert text(loaded, part) == expect(expected, known, "</S>"), part
    # The folder of the training shards alone says what is missing.
    with pytest.raises(ValueError, match=r"no file of the valid part among 3"):
        load(train)


def test_europarl(tmp_path, load):
    lines = sentences(2000)
    for language in "en", "fr":
        path = tmp_path / "europarl" / f"europarl-v7.fr-en.{language}"
        path.parent.mkdir(exist_ok=True)
        path.write_text("\n".join(f"{line}." for line in lines) + "\n")
    loaded = load(path)
    assert (loaded.format, loaded.tokens) == ("lines", "code")
    parts = [text(loaded, part) for part in formats.PARTS]
    assert sum(part.count("<eos>") for part in parts) == 2000
    assert all(part.endswith(". <eos>") for part in parts)
    assert [part.count("<eos>") / 2000 for part in parts] == pytest.approx(
        [0.9, 0.05, 0.05], abs=0.01
    )
    with pytest.raises(ValueError, match="2 languages, en, fr: give one"):
        load(path.parent)


def test_patterns(tmp_path, load):
    for i in range(30):
        (tmp_path / f"shard{i}.txt").write_text("\n".join(sentences(9, i)))
        (tmp_path / f"other{i}.txt").write_text("other")
    loaded = load(tmp_path / "shard*.txt")
    assert "other" not in loaded.words
    total = sum(text(loaded, p).count("<eof>") for p in formats.PARTS)
    assert total == 30


def test_the_standard_library():
    source = texts.find("stdlib")
    names = source.parts[""]
    assert "random.py" in names and "json/decoder.py" in names
    assert not any("site-packages" in name for name in names)
    assert not any(name.startswith("test/") for name in names)
    more = texts.find("stdlib+tests").parts[""]
    assert set(names) < set(more)


def test_tf_records(tmp_path, load):
    tf = pytest.importorskip("tensorflow")
    lines = sentences(600)
    path = tmp_path / "shard-0.tfrecord"

    def example(**features):
        return tf.train.Example(
            features=tf.train.Features(feature=features)
        ).SerializeToString()

    def of_bytes(*values):
        return tf.train.Feature(bytes_list=tf.train.BytesList(value=values))

    with tf.io.TFRecordWriter(str(path)) as writer:
        for line in lines:
            writer.write(example(text=of_bytes(line.encode())))
    loaded = load(path)
    assert loaded.format == "tfrecord"
    written = " ".join(text(loaded, part) for part in formats.PARTS)
    assert sorted(written.split()) == sorted(
        expect(lines, set(loaded.words), "<eos>").split()
    )
    with pytest.raises(ValueError, match="No text in the field 'body'"):
        load(path, field="body")
    path.write_bytes(path.read_bytes()[:-3])
    with pytest.raises(ValueError, match=r"of a TFRecord file: "):
        load(path)
    with tf.io.TFRecordWriter(str(path)) as writer:
        writer.write(example(text=of_bytes(b"\xff")))
    with pytest.raises(ValueError, match="'utf-8' codec can't decode"):
        load(path)


@pytest.mark.parametrize("kind", ("strings", "dicts"))
def test_a_saved_dataset(tmp_path, load, kind):
    tf = pytest.importorskip("tensorflow")
    lines = sentences(600)
    data = tf.data.Dataset.from_tensor_slices(lines)
    if kind == "dicts":
        data = data.map(lambda line: {"sentence": line, "length": 1})
    data.save(str(tmp_path / "data"))
    options = {"field": "sentence"} if kind == "dicts" else {}
    loaded = load(tmp_path / "data", **options)
    assert loaded.format == "tf_data"
    sizes = [text(loaded, part).count("<eos>") for part in formats.PARTS]
    assert sum(sizes) == 600
    if kind == "dicts":
        with pytest.raises(ValueError, match="has no field 'text': --field"):
            load(tmp_path / "data")


class Part:
    """What `select_columns` of the library datasets needs."""

    column_names = ("text", "label")

    def __init__(self, lines):
        self._lines = lines

    def select_columns(self, names):
        assert names == ["text"]
        return [{"text": line} for line in self._lines]


@pytest.mark.parametrize("where", ("disk", "hub"))
def test_hugging_face(tmp_path, load, monkeypatch, where):
    """A stand-in for the library says what it was asked for."""
    lines = {
        name: sentences(200, name) for name in ("train", "validation", "test")
    }
    parts = {name: Part(some) for name, some in lines.items()}
    parts["unsupervised"] = Part(["not part of it"])
    path, asked = "hub:org/name:config", []
    if where == "disk":
        path = tmp_path / "data"
        path.mkdir()
        (path / "dataset_dict.json").write_text("{}")
    monkeypatch.setitem(sys.modules, "datasets", None)
    with pytest.raises(ValueError, match="pip install datasets"):
        load(path)
    library = types.SimpleNamespace(
        load_from_disk=lambda *a: (asked.append(a), parts)[1],
        load_dataset=lambda *a: (asked.append(a), parts)[1],
    )
    monkeypatch.setitem(sys.modules, "datasets", library)
    loaded = load(path)
    assert asked == [
        (str(path),) if where == "disk" else ("org/name", "config")
    ]
    for part, name in (("train", "train"), ("valid", "validation")):
        assert text(loaded, part) == expect(
            lines[name], set(loaded.words), "<eos>"
        )
    with pytest.raises(ValueError, match="has no field 'body': --field"):
        load(path, field="body")


def test_hugging_face_without_all_parts(load, monkeypatch):
    parts = {name: Part(sentences(200, name)) for name in ("train", "test")}
    library = types.SimpleNamespace(load_dataset=lambda *a: parts)
    monkeypatch.setitem(sys.modules, "datasets", library)
    loaded = load("hub:org/two")
    sizes = [text(loaded, part).count("<eos>") for part in formats.PARTS]
    assert sum(sizes) == 200 and min(sizes)
    del parts["train"]
    with pytest.raises(ValueError, match="has no part train, but test"):
        load("hub:org/one")


def test_a_folder_that_is_no_saved_dataset(tmp_path, load):
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "text").write_text("a word")
    with pytest.raises(ValueError, match=r"no folder that tf\.data\.Dataset"):
        load(tmp_path / "data", format="tf_data")


def test_options_that_contradict_the_files(tmp_path, load):
    path = tmp_path / "text"
    path.write_text("\n".join(sentences(300)))
    with pytest.raises(ValueError, match=r"no file of the train part among 1"):
        load(path, format="parts")
    with pytest.raises(ValueError, match=r"--format=oak: must be one of auto"):
        load(path, format="oak")
    # Another form than the one recognised.
    loaded = load(path, format="lines", tokens="words")
    assert loaded.boundary == "<eos>"
    whole = " ".join(text(loaded, part) for part in formats.PARTS)
    assert len(re.findall("<eos>", whole)) == 300


def test_vocabularies(tmp_path, load):
    path = tmp_path / "text"
    path.write_text("\n".join(sentences(900)))
    words = tmp_path / "words"
    words.write_text("ba 17\nde\n\nnever\n")
    loaded = load(path, vocabulary=str(words), tokens="words")
    assert set(loaded.words) == {"ba", "de", "never", "<unk>", "<eof>"}
    assert loaded.counts[loaded.words.index("never")] == 0
    assert loaded.counts.sum() == len(loaded.train)
    assert (np.diff(loaded.counts) <= 0).all()
    words.write_text("")
    with pytest.raises(ValueError, match="has no words"):
        load(path, vocabulary=str(words))
    words.write_bytes(b"\xff\n")
    with pytest.raises(ValueError, match="is not UTF-8 text"):
        load(path, vocabulary=str(words))
    with pytest.raises(FileNotFoundError):
        load(path, vocabulary=str(tmp_path / "missing"))

    everything = load(path)
    few = load(path, max_classes=10)
    assert len(few.words) == 10
    kept = [w for w in everything.words if w != "<unk>"][:9]
    assert set(few.words) == {*kept, "<unk>"}
    assert few.counts.sum() == everything.counts.sum()
