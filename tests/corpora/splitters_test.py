"""What `--tokens` may name: tokens, vocabularies, and back to text."""

import keras
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
    assert "".join(splitters.pieces(words, tokens)) == "a b\nc\n\nd"
    assert "".join(splitters.pieces(words, [])) == ""
    # A piece comes before the token after the next is asked for.
    asked = []
    pieces = splitters.pieces(words, (asked.append(t) or t for t in tokens))
    assert next(pieces) == "a"
    assert len(asked) <= 2


@pytest.mark.parametrize(
    "name", ("bytes", "", "keras", "keras:", "code:file", "keras:missing.keras")
)
def test_names_that_are_none(name):
    with pytest.raises(ValueError, match=f"--tokens={name}: "):
        corpus.Options(tokens=name)


def save(tmp_path, layer):
    """The path of a model with a layer that takes strings."""
    path = tmp_path / "model.keras"
    inputs = keras.Input((), dtype="string")
    keras.Model(inputs, layer(inputs)).save(path)
    return f"keras:{path}"


def test_a_text_vectorization(tmp_path):
    layer = keras.layers.TextVectorization(max_tokens=9)
    layer.adapt(LINES)
    tokens = save(tmp_path, layer)
    loaded, words = load(tmp_path, tokens)
    known = layer.get_vocabulary()
    # The layer's own unknown word is the class of unknown ones.
    assert set(loaded.words) == {*known[2:], "<unk>", "<eos>"}
    # Lower case and no punctuation, as the layer has it; never its padding.
    splitter = splitters.named(tokens)
    expected = [known[i] for i in layer(LINES[:1]).numpy()[0] if i]
    expected = [w if w != "[UNK]" else "<unk>" for w in expected]
    assert "<unk>" in expected
    assert splitter.lines([LINES[0], "", "the cat"]) == [
        expected,
        [],
        ["the", "cat"],
    ]
    assert "" not in words
    layer = keras.layers.TextVectorization(output_mode="multi_hot")
    layer.adapt(LINES)
    with pytest.raises(ValueError, match="must have output_mode='int'"):
        load(tmp_path, save(tmp_path, layer))


def test_a_string_lookup(tmp_path):
    layer = keras.layers.StringLookup(vocabulary=["the", "cat", "mat!"])
    loaded, words = load(tmp_path, save(tmp_path, layer))
    assert set(words) == {"the", "cat", "mat!", "<unk>", "<eos>"}
    assert loaded.counts[loaded.words.index("cat")] == words.count("cat")


def test_layers_within_layers(tmp_path):
    lookup = keras.layers.StringLookup(vocabulary=["the", "cat"])
    inner = keras.Sequential([keras.Input((), dtype="string"), lookup])
    for layer in (inner, keras.layers.Pipeline([lookup])):
        splitter = splitters.named(save(tmp_path, layer))
        assert splitter.vocabulary == ["<unk>", "the", "cat"]


def test_models_that_are_none(tmp_path):
    path = tmp_path / "model.keras"
    keras.Sequential([keras.Input((1,)), keras.layers.Dense(1)]).save(path)
    with pytest.raises(ValueError, match="has 0 TextVectorization or String"):
        splitters.named(f"keras:{path}")
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
    (pieces,) = splitter.lines(["The cat sat"])
    assert "".join(splitter.pieces(pieces)) == "The cat sat"


def test_tokenizers(tmp_path):
    library = pytest.importorskip("tokenizers")
    trained = library.ByteLevelBPETokenizer()
    trained.train_from_iterator(LINES, vocab_size=300)
    trained.save(str(tmp_path / "t.json"))
    tokens = f"tokenizers:{tmp_path / 't.json'}"
    loaded, _ = load(tmp_path, tokens)
    splitter = splitters.named(tokens)
    assert set(loaded.words) == {*splitter.vocabulary, "<unk>", "<eos>"}
    (pieces,) = splitter.lines(["The cat sät"])
    assert "".join(splitter.pieces(pieces)) == "The cat sät"
