"""What `--tokens` may name: tokens, vocabularies, and back to text."""

import pytest

from examples.corpora import corpus, splitters

LINES = [
    f"The cat {i} sat, on the mat! We're {'far' * (i % 3)}" for i in range(99)
]


def load(tmp_path, tokens, **options):
    """A `Corpus` of `LINES`, and the words of its training part."""
    path = tmp_path / "text"
    path.write_text("\n".join(LINES))
    loaded = corpus.load(
        corpus.Options(str(path), format="lines", tokens=tokens, **options),
        tmp_path / "cache",
    )
    return loaded, [loaded.words[c] for c in loaded.train]


def test_words_and_code():
    words, code = splitters.named("words"), splitters.named("code")
    text = "if x:\n    y(1)\n\nz"
    assert words.split(text) == ["if", "x:", "y(1)", "z"]
    assert words.split(text, "<eos>") == [
        *("if", "x:", "<eos>", "y(1)", "<eos>", "<eos>", "z")
    ]
    assert code.split(text)[:4] == ["if", "x", ":", "\n    "]
    assert code.split(text, "<eos>") == [
        *("if", "x", ":", "<eos>", "y", "(", "1", ")", "<eos>", "<eos>", "z")
    ]


def test_lines_are_shown_as_lines():
    tokens = ["a", "b", "<eos>", "c", "</S>", "</S>", "d"]
    words = splitters.named("words")
    assert splitters.join(words, tokens) == "a b\nc\n\nd"
    assert splitters.join(words, []) == ""


@pytest.mark.parametrize(
    "name", ("bytes", "", "tokenizers", "tokenizers:", "code:file", "keras:x")
)
def test_names_that_are_none(name):
    with pytest.raises(ValueError, match=f"--tokens={name}: "):
        corpus.Options(tokens=name)


def test_models_that_are_none(tmp_path):
    path = tmp_path / "model"
    path.write_text("no model")
    for kind in splitters.OF_A_FILE:
        with pytest.raises(ValueError, match=f"--tokens={kind}:") as error:
            splitters.named(f"{kind}:{path}")
        assert "\n" not in str(error.value)


def test_sentencepiece(tmp_path):
    library = pytest.importorskip("sentencepiece")
    (tmp_path / "lines").write_text("\n".join(LINES))
    library.SentencePieceTrainer.train(
        input=str(tmp_path / "lines"),
        model_prefix=str(tmp_path / "m"),
        vocab_size=40,
        minloglevel=9,
    )
    tokens = f"sentencepiece:{tmp_path / 'm.model'}"
    loaded, words = load(tmp_path, tokens)
    splitter = splitters.named(tokens)
    assert set(loaded.words) == {*splitter.vocabulary, "<unk>", "<eos>"}
    assert words.count("<unk>") <= words.count("7")
    pieces = splitter.split("The cat sat")
    assert splitter.join(pieces) == "The cat sat"


def test_tokenizers(tmp_path):
    library = pytest.importorskip("tokenizers")
    trained = library.ByteLevelBPETokenizer()
    trained.train_from_iterator(LINES, vocab_size=300)
    trained.save(str(tmp_path / "t.json"))
    tokens = f"tokenizers:{tmp_path / 't.json'}"
    loaded, _ = load(tmp_path, tokens)
    splitter = splitters.named(tokens)
    assert set(loaded.words) == {*splitter.vocabulary, "<unk>", "<eos>"}
    pieces = splitter.split("The cat sät")
    assert splitter.join(pieces) == "The cat sät"
