"""The ids of a corpus beside a plain reader's."""

import collections
import hashlib
import random

import numpy as np
import pytest

from examples.corpora import corpus, formats, tokenizer

LETTERS = "aeiou bcdf\tgh\n\n    klé我ไ.(_1'\r\n"


def plain_reader(documents, by_lines, tokens):
    """Class ids of each part as a few lines of Python make them.

    Args:
        documents: Texts of 20 documents or more, by their names.
        by_lines: Whether "<eos>" follows each line.
        tokens: "words" or "code".
    """
    split = {"words": str.split, "code": tokenizer.split}[tokens]
    order = sorted(documents, key=lambda n: hashlib.sha256(n.encode()).digest())
    parts = {"valid": order[::20], "test": order[10::20]}
    held_out = parts["valid"] + parts["test"]
    parts["train"] = [n for n in order if n not in held_out]
    words = {}
    for part in formats.PARTS:
        words[part] = []
        for name in sorted(parts[part]):
            text = documents[name].replace("\r\n", "\n").replace("\r", "\n")
            if by_lines:
                lines = text.removesuffix("\n").split("\n") if text else []
                for line in lines:
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


@pytest.mark.parametrize("form", ("documents", "lines"))
@pytest.mark.parametrize("tokens", ("words", "code"))
def test_ids_of_a_plain_reader(tmp_path, tokens, form):
    rng = random.Random(1)
    documents = {
        f"{i:02}.txt": "".join(rng.choices(LETTERS, k=rng.randint(1, 300)))
        for i in range(45)
    }
    folder = tmp_path / "texts"
    folder.mkdir()
    for name, text in documents.items():
        (folder / name).write_bytes(text.encode())
    options = corpus.Options(str(folder), format=form, tokens=tokens)
    loaded = corpus.load(options)
    words, ids = plain_reader(documents, form == "lines", tokens)
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


@pytest.mark.parametrize("form", ("documents", "lines"))
def test_a_file_is_divided_between_lines(tmp_path, form):
    """Each line has a word of its own at both ends, and is in one part."""
    path = tmp_path / "text"
    rng = random.Random(0)
    lines = [
        " ".join([f"w{i}", *["a"] * rng.randint(0, 9), f"once{i} w{i}"])
        for i in range(3000)
    ]
    path.write_text("\n".join(lines))
    options = corpus.Options(str(path), format=form)
    loaded = corpus.load(options)
    own = collections.Counter(loaded.words[c] for c in loaded.train)
    train = {word: n for word, n in own.items() if word.startswith("w")}
    assert set(train.values()) == {2}
    sizes = [len(train) / 3000]
    for part in "valid", "test":
        found = [loaded.words[c] for c in getattr(loaded, part)]
        assert not any(word.startswith("w") for word in found)
        sizes.append(found.count("<unk>") / 9000)
        # A hundredth of the text is a document.
        if form == "documents":
            assert found[-1] == "<eof>"
            assert found.count("<eof>") == round(100 * sizes[-1])
    assert sum(sizes) == pytest.approx(1)
    assert sizes == pytest.approx([0.9, 0.05, 0.05], abs=0.01)
