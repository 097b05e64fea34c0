"""What `--tokens` may name: tokens, and back to text."""

from examples.corpora.splitters import SPLITTERS, join


def test_words_and_code():
    words, code = SPLITTERS["words"], SPLITTERS["code"]
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
    tokens = ["a", "b", "<eos>", "c", "<eos>", "<eos>", "d"]
    words = SPLITTERS["words"]
    assert join(words, tokens) == "a b\nc\n\nd"
    assert join(words, []) == ""
