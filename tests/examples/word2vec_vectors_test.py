"""Files of word vectors, their neighbours and analogies."""

import struct
import sys

import numpy as np
import pytest

from examples.common import program
from examples.word2vec import formats, neighbours, query, questions

WORDS = ("the", "Ünï", "0.5", "x", "日本")


@pytest.fixture
def vectors():
    """`[5, 3]`, with numbers that few digits do not tell apart."""
    values = np.random.default_rng(0).normal(size=(len(WORDS), 3))
    values[1] = 1e-30, -np.nextafter(np.float32(1), 2), 1 / 3
    return values.astype(np.float32)


def write(kind, path, vectors):
    blocks = np.array_split(vectors, 3)
    formats.write(kind, path, WORDS, range(9, 4, -1), iter(blocks))


def test_binary_format_is_word2vecs(vectors, tmp_path):
    path = tmp_path / "vectors.bin"
    write("binary", path, vectors)
    data = path.read_bytes()
    # What word2vec.c's fprintf("%s ") and fwrite(float) write.
    expected = b"5 3\n"
    for word, vector in zip(WORDS, vectors, strict=True):
        expected += word.encode() + b" " + struct.pack("<3f", *vector) + b"\n"
    assert data == expected


def test_text_format_is_word2vecs(vectors, tmp_path):
    path = tmp_path / "vectors.txt"
    write("text", path, vectors)
    first, *lines = path.read_text(encoding="utf-8").splitlines()
    assert first == "5 3"
    for word, vector, line in zip(WORDS, vectors, lines, strict=True):
        found, *numbers = line.split(" ")
        assert found == word
        # The same float32, bit for bit.
        assert [np.float32(n) for n in numbers] == vector.tolist()


@pytest.mark.parametrize("kind", ["binary", "text"])
def test_what_is_written_is_read(vectors, tmp_path, kind):
    path = tmp_path / "vectors"
    write(kind, path, vectors)
    words, found = formats.read(path)
    assert words == WORDS
    np.testing.assert_array_equal(found, vectors)
    words, found = formats.read(path, limit=2)
    assert words == WORDS[:2]
    np.testing.assert_array_equal(found, vectors[:2])
    assert formats.read(path, limit=99)[0] == WORDS


def test_other_programs_conventions_are_read(tmp_path):
    path = tmp_path / "v.bin"
    numbers = struct.pack("<2f", 1, 2), struct.pack("<2f", 3, 4)
    # Without line breaks, as gensim writes.
    path.write_bytes(b"2 2\na " + numbers[0] + b"b " + numbers[1])
    words, found = formats.read(path)
    assert words == ("a", "b")
    assert found.tolist() == [[1, 2], [3, 4]]
    # With a space at the end of each line, as word2vec.c writes.
    path = tmp_path / "v.txt"
    # An editor may have added a byte-order mark and empty last lines.
    for begin, end in (("", ""), ("\ufeff", "\n\n")):
        path.write_text(f"{begin}2 2\na 1.0 2.0 \nb 3 4e0 \n{end}")
        words, found = formats.read(path)
        assert words == ("a", "b")
        assert found.tolist() == [[1, 2], [3, 4]]


@pytest.mark.parametrize(
    ("name", "data", "message"),
    [
        ("v.bin", b"", 'begin with a line of two numbers, "N width"'),
        ("v.bin", b"hello world\n", "begin with a line of two numbers"),
        ("v.bin", b"999999999999999 300\na 1", "and hold as many"),
        ("v.txt", b"0 3\n", "begin with a line of two numbers"),
        ("v.bin", b"2 1\na \0\0\0\0\nb \0", "no word 2 of 2 with"),
        ("v.bin", b"2 1\na \0\0\0\0\n", "no word 2 of 2 with"),
        ("v.bin", b"1 2\na 1.5\n", "no word 1 of 1 with 2 numbers"),
        ("v.txt", b"2 2\na 1 2\nb 3\n", "no word 2 of 2 with"),
        ("v.txt", b"2 2\na 1 2\nb 3 x\n", "no word 2 of 2 with"),
        ("v.txt", b"2 2\na 1 2\n", "no word 2 of 2 with"),
        ("v.txt", b"2 1\na 1\n\xff 2\n", "no word 2 of 2 with 1 numbers"),
        ("v.txt.gz", b"\x1f\x8b\x08", "is compressed by gzip: unpack it"),
    ],
)
def test_damaged_files(tmp_path, name, data, message):
    path = tmp_path / name
    path.write_bytes(data)
    with pytest.raises(ValueError, match=message) as error:
        formats.read(path)
    assert str(path) in str(error.value)


def test_gensim_reads_them(vectors, tmp_path):
    models = pytest.importorskip("gensim.models")
    for kind, name in formats.FILES.items():
        write(kind, tmp_path / name, vectors)
    for found in (
        models.KeyedVectors.load_word2vec_format(
            tmp_path / "vectors.bin", binary=True
        ),
        models.KeyedVectors.load_word2vec_format(tmp_path / "vectors.txt"),
        models.KeyedVectors.load(str(tmp_path / "vectors.kv")),
    ):
        assert tuple(found.index_to_key) == WORDS
        np.testing.assert_array_equal(found.vectors, vectors)
    assert found.get_vecattr("x", "count") == 6
    theirs = tmp_path / "theirs.bin"
    found.save_word2vec_format(theirs, binary=True)
    words, read = formats.read(theirs)
    assert words == WORDS
    np.testing.assert_array_equal(read, vectors)


def test_without_gensim_a_sentence_says_so(monkeypatch):
    monkeypatch.setitem(sys.modules, "gensim", None)
    with pytest.raises(ValueError, match="pip install gensim"):
        formats.check(["binary", "gensim"])
    formats.check(["binary", "text"])


def draw_words(count=40, width=4, seed=0):
    rng = np.random.default_rng(seed)
    names = [f"{'wW'[i % 2]}{i // 2}" for i in range(count)]
    return names, rng.normal(size=[count, width]).astype(np.float32)


def cosine(a, b):
    return a @ b / np.sqrt((a @ a) * (b @ b))


def test_neighbours_against_cosines():
    names, vectors = draw_words()
    exact = dict(zip(names, vectors.astype(np.float64), strict=True))
    words = neighbours.Words(names, vectors)
    expected = sorted(
        ((cosine(exact["w3"], exact[n]), n) for n in names if n != "w3"),
        reverse=True,
    )
    found = words.nearest("w3", 5)
    assert [name for name, _ in found] == [n for _, n in expected[:5]]
    assert [c for _, c in found] == pytest.approx([c for c, _ in expected[:5]])
    assert len(words.nearest("w3", 99)) == len(names) - 1


def test_a_vector_of_zeros_is_near_nothing():
    words = neighbours.Words("ab", np.array([[0, 0], [3, 4]], np.float32))
    assert words.nearest("b", 1) == [("a", 0)]


def right_by_brute_force(names, vectors, sections):
    """How many questions are right, skipped: one word at a time, float64."""
    index = {name: i for i, name in enumerate(names)}
    scores = []
    for section in sections:
        right = skipped = 0
        for a, b, c, answer in section.questions:
            if not {a, b, c, answer} <= index.keys():
                skipped += 1
                continue
            unit = vectors / np.linalg.norm(vectors, axis=1)[:, None]
            wanted = unit[index[b]] - unit[index[a]] + unit[index[c]]
            best = max(
                (n for n in names if n not in (a, b, c)),
                key=lambda n: cosine(wanted, unit[index[n]]),
            )
            right += best == answer
        scores.append((right, skipped))
    return scores


def draw_questions(names, vectors, count, seed):
    """Random ones, every other with its right answer or a word like it."""
    rng = np.random.default_rng(seed)
    drawn = []
    for i in range(count):
        a, b, c, d = rng.choice([*names, "unknown"], 4, replace=False)
        if i % 2 and "unknown" not in (a, b, c):
            for d in names:
                section = questions.Section("", [(a, b, c, d)])
                if right_by_brute_force(names, vectors, [section])[0][0]:
                    break
        drawn.append((a, b, c, d))
    return drawn


@pytest.mark.parametrize("scores_at_once", [1, 1 << 24])
def test_score_against_brute_force(monkeypatch, tmp_path, scores_at_once):
    monkeypatch.setattr(questions, "_SCORES", scores_at_once)
    names, vectors = draw_words(count=14)
    exact = vectors.astype(np.float64)
    sections = [
        questions.Section(name, draw_questions(names, exact, 15, seed))
        for seed, name in enumerate(["first", "second part"])
    ]
    path = tmp_path / "questions.txt"
    path.write_text(
        "\n".join(
            line
            for section in sections
            for line in [
                f": {section.name}",
                *map(" ".join, section.questions),
            ]
        )
    )
    assert questions.read(path) == sections
    scores = questions.score(neighbours.Words(names, vectors), sections)
    expected = right_by_brute_force(names, exact, sections)
    assert [(s.right, s.skipped) for s in scores] == expected
    assert all(0 < s.right < s.asked == 15 - s.skipped for s in scores)
    *_, total = questions.report(scores).splitlines()
    asked = sum(s.asked for s in scores)
    right = sum(s.right for s in scores)
    assert total.split()[:3] == ["in", "all", f"{right / asked:.1%}"]
    assert f"{right} of {asked}, {30 - asked} skipped" in total


def test_a_byte_order_mark_is_no_word(tmp_path):
    path = tmp_path / "questions.txt"
    path.write_text("\ufeff: a\r\nb c d e\r\n\r\n")
    assert questions.read(path) == [
        questions.Section("a", [("b", "c", "d", "e")])
    ]


def test_lower_case_keeps_the_most_frequent():
    names, vectors = draw_words()
    words = neighbours.Words(names, vectors)
    lowered = questions.lower(words)
    assert lowered.names == tuple(f"w{i}" for i in range(20))
    np.testing.assert_allclose(lowered.unit, words.unit[::2], rtol=1e-6)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (": a\nb c d\n", r"line 2: neither a section.*'b c d'"),
        (": a\n\n", "has no question"),
        (b"\x1f\x8b\x08", r"questions\.txt is not UTF-8 text"),
    ],
)
def test_bad_questions(tmp_path, data, message):
    path = tmp_path / "questions.txt"
    path.write_bytes(data if isinstance(data, bytes) else data.encode())
    with pytest.raises(ValueError, match=message):
        questions.read(path)


def ask(path, *arguments):
    program.run(
        query.main, query.flags, ["query", f"--vectors={path}", *arguments]
    )


def test_query(tmp_path, capsys):
    names, vectors = draw_words()
    path = tmp_path / "v.bin"
    formats.write("binary", path, names, range(40), [vectors])
    asked = tmp_path / "questions.txt"
    asked.write_text("W0 w1 w2 w3\nw0 w1 w2 w19\n")
    ask(path, f"--questions={asked}", "--neighbours=w0,w19", "--restrict=20")
    out = capsys.readouterr().out
    assert "w19  (not among these 20 words)" in out
    assert " of 1, 1 skipped for unknown words" in out
    # 40 words are 20 in lower case, all of them known.
    ask(path, f"--questions={asked}", "--lowercase", "--neighbours=W19")
    out = capsys.readouterr().out
    assert "  w19  w" in out and " of 2\n" in out
    with pytest.raises(SystemExit, match=r"^error: .*nothing"):
        ask(tmp_path / "nothing")
