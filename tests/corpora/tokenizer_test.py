"""Tokens of code and prose, what `--tokens` may name, and back to text."""

import keyword
import pathlib
import random

import pytest

from examples.corpora import tokenizer
from examples.corpora.splitters import SPLITTERS, join


def test_joined_tokens_are_the_same_tokens():
    for path in (tokenizer.__file__, keyword.__file__, random.__file__):
        tokens = tokenizer.split(pathlib.Path(path).read_text())
        assert tokenizer.split(tokenizer.join(tokens)) == tokens
    assert tokenizer.join([]) == ""


@pytest.mark.parametrize(
    "text",
    (
        "def f(x, y):\n    return {g(x)[0]: 'a b', 1: \"\"} # two",
        'if (x ** 2 != y.z) and not [1.5]:\n\t"""It\'s done. Is it?"""',
        "She said, \"I don't know\" (and didn't). We'll see...",
        "an odd 'mark\nand 'two marks'",
        "@property\ndef f(self) -> int: self.x += 1 // 2",
        "我叫小明，今年20岁。\n“你好！”她说：《红楼梦》。",
        "吾輩は猫である。名前はまだ無い。「GPU上で動く」",
        "ภาษาไทยง่าย python",
    ),
)
def test_spaces_are_set_where_they_are_usual(text):
    assert tokenizer.join(tokenizer.split(text)) == text


def test_scripts_without_spaces_are_characters():
    assert tokenizer.split("我用Python3写，한국어 단어") == [
        *("我", "用", "Python3", "写", "，", "한국어", "단어")
    ]
    assert tokenizer.split("これはｶﾅ") == list("これはｶﾅ")
    assert tokenizer.split("ภาษา ไทย") == list("ภาษาไทย")
    assert tokenizer.split("über_1 слово") == ["über_1", "слово"]


def test_wide_characters_keep_their_tokens():
    """No spacing joins what were two tokens, nor parts one."""
    rng = random.Random(0)
    characters = "a1_é我の、。ＡＢ！ไ้ท(\"'.한"
    for _ in range(500):
        text = "".join(rng.choices(characters + "  ", k=12))
        tokens = tokenizer.split(text)
        assert tokenizer.split(tokenizer.join(tokens)) == tokens, text


def test_a_prompt_may_end_in_a_line_break():
    assert tokenizer.split_beginning("if x:\n    ") == [
        *("if", "x", ":", "\n    ")
    ]
    assert tokenizer.split_beginning("") == []
    assert tokenizer.split("if x:\n    ") == ["if", "x", ":"]


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
