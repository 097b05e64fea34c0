"""The WordNet example on a taxonomy of a few lines."""

import numpy as np
import pytest

from examples.common import program
from examples.wordnet import glosses, model, nouns, taxonomy, train

# A dog is an animal and then a pet; Rex is an instance; 0x0b words at the end.
LINES = [
    "  1 This is a licence  ",
    "  2 | and not a synset.  ",
    "00000010 03 n 01 entity 0 002 ~ 00000020 n 0000 ~ 00000030 n 0000 | "
    "that which is there  ",
    "00000020 03 n 02 animal 0 living_animal 0 002 @ 00000010 n 0000 "
    '+ 00000099 v 0101 | a being that moves; "it is an animal"; "two"  ',
    "00000030 03 n 01 pet 0 001 @ 00000010 n 0000 | an animal at home  ",
    "00000040 05 n 02 dog 0 Canis_familiaris 0 003 @ 00000020 n 0000 "
    "@ 00000030 n 0000 ~ 00000050 n 0000 | a barking animal; seen | heard  ",
    "00000050 05 n 01 poodle 1 001 @ 00000040 n 0000 | "
    "a curly dog that people cut and that they show in halls  ",
    "00000060 18 n 01 Rex 0 001 @i 00000040 n 0000 |   ",
    "00000070 03 n 0b "
    + "".join(f"w{i} 0 " for i in range(11))
    + "001 @ 00000030 n 0000 | many names  ",
]


@pytest.fixture
def write(tmp_path):
    def write(lines):
        path = tmp_path / "data.noun"
        path.write_text("\n".join(lines) + "\n")
        return str(path)

    return write


def test_synsets(write):
    synsets = nouns.read(write(LINES))
    assert [s.words[0] for s in synsets] == (
        [
            "entity",
            "animal",
            "pet",
            "dog",
            "poodle",
            "Rex",
            "w0",
        ]
    )
    assert synsets[1].words == ("animal", "living_animal")
    assert synsets[6].words == tuple(f"w{i}" for i in range(11))
    assert [s.hypernyms for s in synsets] == (
        [
            (),
            (0,),
            (0,),
            (1, 2),
            (3,),
            (3,),
            (2,),
        ]
    )
    assert [s.definition for s in synsets][:4] == [
        "that which is there",
        "a being that moves",
        "an animal at home",
        "a barking animal; seen | heard",
    ]
    assert synsets[5].definition == ""


def test_tree(write):
    tree = taxonomy.build(nouns.read(write(LINES)))
    assert [tree.path_names(c) for c in range(tree.num_classes)] == [
        ["entity (itself)"],
        ["animal", "animal (itself)"],
        ["pet", "pet (itself)"],
        ["animal", "dog", "dog (itself)"],
        ["animal", "dog", "poodle"],
        ["animal", "dog", "Rex"],
        ["pet", "w0"],
    ]
    paths = taxonomy.paths(tree)
    pairs = np.array([(a, b) for a in range(7) for b in range(7)])
    found = taxonomy.common_depths(paths, *pairs.T)
    for (a, b), depth in zip(pairs, found, strict=True):
        common = set(tree.path(a)) & set(tree.path(b))
        assert depth == len(common)


def test_several_roots_and_one_synset(write):
    def lone(offset, word):
        return f"{offset:08} 03 n 01 {word} 0 000 | a gloss"

    tree = taxonomy.build(nouns.read(write([lone(1, "one"), lone(2, "two")])))
    assert [tree.path_names(c) for c in range(2)] == [["one"], ["two"]]
    tree = taxonomy.build(nouns.read(write([*LINES, lone(2, "two")])))
    assert tree.path_names(0) == ["entity", "entity (itself)"]
    assert tree.path_names(7) == ["two"]
    tree = taxonomy.build(nouns.read(write([lone(1, "one")])))
    assert tree.path_names(0) == ["one"]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("", "line 10: not a synset: "),
        ("nonsense", "line 10: not a synset: 'nonsense"),
        ("00000080 03 n 01 a 0 000 no gloss", "line 10: not a synset"),
        ("00000080 03 n xy a 0 000 | gloss", "line 10: not a synset"),
        ("00000080 03 n 03 a 0 000 | gloss", "line 10: not a synset"),
        ("00000080 03 n 00 000 | gloss", "line 10: not a synset"),
        ("00000080 03 n 01 a 0 002 @ 00000010 n 0000 | g", "not a synset"),
        ("abc 03 n 01 a 0 000 | gloss", "line 10: not a synset"),
        ("00000010 03 n 01 a 0 000 | gloss", "00000010 was there before"),
        (
            "00000080 03 n 01 a 0 001 @ 00000011 n 0000 | gloss",
            "line 10: the hypernym 00000011 is no synset of the file",
        ),
    ],
)
def test_bad_lines(write, line, message):
    with pytest.raises(ValueError, match=message):
        nouns.read(write([*LINES, line]))


def test_no_synsets_and_a_circle(write):
    with pytest.raises(ValueError, match="holds no synsets"):
        nouns.read(write(LINES[:2]))
    circle = [
        f"0000008{i} 03 n 01 a 0 001 @ 0000008{1 - i} n 0000 | gloss"
        for i in range(2)
    ]
    with pytest.raises(ValueError, match="its own ancestor"):
        taxonomy.build(nouns.read(write([*LINES, *circle])))


def test_words_are_held_out():
    rng = np.random.default_rng(0)
    words = [f"word{i}" for i in range(50)]
    synsets = [
        nouns.Synset((f"name{c}",), (), " ".join(rng.choice(words, c % 12)))
        for c in range(100)
    ]
    data = glosses.prepare(synsets, seed=0)
    again = glosses.prepare(synsets, seed=0)
    np.testing.assert_array_equal(data.held_out.words, again.held_out.words)
    assert data.training.labels.tolist() == list(range(100))

    def texts(examples):
        bags = {}
        for row, c in zip(*examples, strict=True):
            # No padding before a word, and no empty bag.
            assert row[0] and (np.diff((row > 0).astype(int)) <= 0).all()
            bags[int(c)] = [data.vocabulary[i] for i in row if i]
        return bags

    training, held_out = texts(data.training), texts(data.held_out)
    assert held_out.keys() <= set(range(0, 100, glosses.HELD_OUT_EVERY))
    num_divided = 0
    for c, synset in enumerate(synsets):
        original = glosses.split(synset.definition)
        if c in held_out:
            num_divided += 1
            assert not set(training[c]) & set(held_out[c])
            together = sorted(training[c] + held_out[c])
            assert together == sorted(original)
            assert abs(len(set(training[c])) - len(set(held_out[c]))) <= 1
        else:
            assert training[c] == (original or ["<unk>"])
    assert num_divided >= 4
    # Words that training text has once, or not at all, are unknown.
    rare = [*synsets, nouns.Synset(("x",), (), "Once, twice; twice")]
    data = glosses.prepare(rare, seed=0)
    assert texts(data.training)[100] == ["<unk>", "twice", "twice"]


def test_two_level_is_shuffled():
    tree = model.shuffled_two_level(1000, 0)
    assert tree != model.shuffled_two_level(1000, 1)
    groups = tree.row_groups[tree.class_rows]
    assert (np.diff(groups) != 0).mean() > 0.9


def run(*arguments):
    program.run(train.main, train.flags, ["train", *arguments])


def test_program(write, capsys):
    """It learns a taxonomy whose glosses name the path."""
    lines = ["00000000 03 n 01 thing 0 000 | thing"]
    for kind in range(1, 6):
        lines.append(
            f"{kind:08} 03 n 01 kind{kind} 0 001 @ 00000000 n 0000 | kind"
        )
        for i in range(16):
            gloss = " ".join(f"k{kind}w{j}" for j in range(8)) + f" own{i}"
            lines.append(
                f"{100 * kind + i:08} 03 n 01 leaf{kind}_{i} 0 001 "
                f"@ {kind:08} n 0000 | {gloss}"
            )
    path = write(lines)
    run(
        *(f"--nouns={path}", "--epochs=30", "--width=16", "--batch_size=8"),
        "--seed=3",
    )
    out = capsys.readouterr().out
    assert "Tree of 86 classes" in out
    assert "    is    kind1 > leaf1 " in out
    found = {
        line.split()[0]: float(line.split(" depth ")[1].split(";")[0])
        for line in out.splitlines()
        if " at depth " in line
    }
    assert found.keys() == {"chance", "taxonomy", "two_level"}
    # The kind is right by the words of the siblings.
    assert found["taxonomy"] > 0.9 > found["chance"]


def test_picture(write, tmp_path):
    pytest.importorskip("matplotlib")
    path = tmp_path / "tree.svg"
    with pytest.raises(SystemExit, match="no gloss that can be divided"):
        run(f"--nouns={write(LINES)}", f"--plot={path}")
    assert "poodle" in path.read_text()


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (None, "wordnet-base of Debian and Ubuntu .*--nouns=FILE"),
        (["bad"], "line 1: not a synset: 'bad"),
        (LINES[2:3], "no gloss that can be divided"),
    ],
)
def test_errors_are_one_line(write, tmp_path, lines, message):
    path = tmp_path / "nothing" if lines is None else write(lines)
    with pytest.raises(SystemExit, match=rf"(?s)^error: .*{message}") as error:
        run(f"--nouns={path}")
    assert "\n" not in str(error.value)
