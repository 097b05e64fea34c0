"""Text from packages, in folders that have their shape."""

import gzip
import zlib

import pytest

from examples.common import program
from examples.corpora.debian import documents as debian
from examples.corpora.debian import markup, packages, sizes


@pytest.fixture
def root(tmp_path):
    return tmp_path


def put(root, path, content):
    path = root / path
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(
        content if isinstance(content, bytes) else content.encode()
    )
    return path


def dictzip(text):
    """As dictzip packs: gzip whose header has a table of chunks, flushed."""
    data, size = text.encode(), 4096
    packer = zlib.compressobj(wbits=-15)
    chunks = [
        packer.compress(data[i : i + size]) + packer.flush(zlib.Z_FULL_FLUSH)
        for i in range(0, len(data), size)
    ]

    def short(*numbers):
        return b"".join(number.to_bytes(2, "little") for number in numbers)

    table = short(1, size, len(chunks), *map(len, chunks))
    extra = b"RA" + short(len(table)) + table
    header = b"\x1f\x8b\x08\x04" + bytes(4) + b"\x02\x03"
    trailer = zlib.crc32(data).to_bytes(4, "little")
    trailer += len(data).to_bytes(4, "little")
    return b"".join(
        (header, short(len(extra)), extra, *chunks, packer.flush(), trailer)
    )


def texts(name, root):
    return dict(debian.documents(name, root))


ENTRY = """Abbey \\Ab"bey\\, n.; pl. {Abbeys}.
   1. A monastery. [Obs.]
      [1913 Webster]

            Ne'er to these chambers.   --Dryden.
"""


def test_a_dictionary_that_dictzip_packed(root):
    put(root, "usr/share/dictd/gcide.dict.dz", dictzip(ENTRY * 300))
    put(root, "usr/share/dictd/gcide.index", "Abbey\tA\tB")
    ((name, text),) = debian.documents("gcide", root)
    assert name == "gcide/gcide.dict.dz"
    assert text.startswith('Abbey \\Ab"bey\\, n.; pl. Abbeys.\n   1. A mon')
    assert "Webster" not in text
    assert text.count("A monastery. [Obs.]\n\n            Ne'er") == 300


def test_a_long_file_is_several_documents(root):
    entry = ENTRY.replace("[1913 Webster]", "") + "\n"
    long = "".join(f"{i} {entry}" for i in range(12_345))
    put(root, "usr/share/dictd/gcide.dict.dz", gzip.compress(long.encode()))
    found = texts("gcide", root)
    assert len(found) == pytest.approx(len(long) / 100_000, abs=1)
    assert list(found)[:2] == ["gcide/gcide.dict.dz", "gcide/gcide.dict.dz#1"]
    assert "".join(found.values()).split() == markup.dictionary(long).split()
    lengths = [len(text) for text in found.values()]
    assert max(lengths) < 101_000
    assert min(lengths[:-1]) > 95_000
    # Cut at empty lines; where there are none, at line ends.
    ends = {text.split()[-1] for text in found.values()}
    assert ends == {"[Obs.]", "--Dryden."}
    lines = "".join(f"word{i}\n" for i in range(200_000))
    put(root, "usr/share/dictd/gcide.dict.dz", lines)
    pieces = list(texts("gcide", root).values())
    assert len(pieces) > 5
    assert "".join(pieces) == lines
    assert [w for piece in pieces for w in piece.split()] == lines.split()
    # Nor one line.
    put(root, "usr/share/dictd/gcide.dict.dz", "word " * 300_000)
    assert len(texts("gcide", root)) == 1


PAGE = """<!DOCTYPE html><html><head><title>Not this</title></head><body>
<div class="navheader"><div>Prev</div> Next</div><nav>Home</nav>
<h1>What is   it&nbsp;?</h1><p>A <b>bold</b> word &amp; an&#8217;s
end.</p><p>Second<script>var x = "<p>no</p>";</script> one<br/>line</p>
<ul><li>one<li>two</ul><table><tr><td>a</td><td>b</td></tr></table>
<pre>
def f(x):
    return  x &lt; 1
</pre><ul class="docnav"><li>Prev</ul></body></html>
"""


def test_web_pages(root):
    folder = "usr/share/doc/anarchism/html"
    put(root, f"{folder}/b.html", PAGE)
    put(root, f"{folder}/a.html", "<p>first")
    put(root, f"{folder}/empty.html", "<html><head>none</head></html>")
    put(root, "usr/share/doc/anarchism/markdown/a.md.gz", "other")
    found = texts("anarchism", root)
    assert list(found) == ["anarchism/a.html", "anarchism/b.html"]
    assert found["anarchism/a.html"] == "first\n"
    assert found["anarchism/b.html"] == (
        "What is it ?\n"
        "A bold word & an’s end.\n"
        "Second one\nline\n"
        "one\ntwo\n"
        "a b\n\n"
        "def f(x):\n    return  x < 1\n"
    )


def test_nested_navigation_ends_where_it_ends():
    page = '<div class="a menu"><div>x<div>y</div></div>z</div>text</div>'
    assert markup.web_page(page) == "text\n"
    assert markup.web_page("</pre></p>open <div><pre>  a") == "open\n  a\n"


def test_pod():
    text = markup.pod(
        "=encoding utf8\n\n=head1 NAME\n\n=over 4\n\n=item B<one> X<index>\n\n"
        "See L<the list|perllist> or L<perlfunc>, C<< $a->b >>, "
        "I<an C<inner> one>, C<a E<lt> b E<gt> E<eacute>>.\n\n"
        "    my $x = <STDIN>; # code\n\n=back\n\n=cut\n"
    )
    assert text.split("\n\n") == [
        "",
        "NAME",
        "",
        "one ",
        "See the list or perlfunc, $a->b, an inner one, a < b > é.",
        "    my $x = <STDIN>; # code",
        "",
        "\n",
    ]


def test_glosses_of_wordnet(root):
    put(
        root,
        "usr/share/wordnet/data.noun",
        "  1 This is a licence | and no gloss\n"
        "00000040 05 n 02 dog 0 Canis_familiaris 0 001 @ 00000020 n 0000 | a "
        'pet; "it | barks"  \n',
    )
    put(
        root,
        "usr/share/wordnet/data.adv",
        "00000050 02 r 0b " + "w 0 " * 11 + "000 | often  \n",
    )
    put(root, "usr/share/wordnet/index.noun", "no | gloss\n")
    assert texts("wordnet", root) == {
        "wordnet/data.adv": f"{', '.join(['w'] * 11)}: often\n",
        "wordnet/data.noun": 'dog, Canis familiaris: a pet; "it | barks"\n',
    }


def test_tagged_text_keeps_its_lines(root):
    put(
        root,
        "usr/share/stardict/dic/XMLittre.dict.dz",
        dictzip(
            '<b>1°</b> À &amp; là.\n\n    <span foreground="#0">Il</span> a'
        ),
    )
    assert texts("littre", root) == {
        "littre/XMLittre.dict.dz": "1° À & là.\n\n    Il a"
    }


def test_files_that_are_no_text_are_left_out(root):
    folder = "usr/share/games/fortunes"
    put(root, f"{folder}/art", "One.\n%\nTwo, 100 %\n%\n")
    put(root, f"{folder}/art.dat", b"\0\1")
    (root / folder / "art.u8").symlink_to("art")
    (root / folder / "off").mkdir()
    assert texts("fortunes", root) == {"fortunes/art": "One.\n\nTwo, 100 %\n\n"}


def test_the_newest_of_several_versions(root):
    for version in ("6.9", "6.12", "6.1"):
        folder = f"usr/share/doc/linux-doc-{version}/html/_sources"
        for name in ("index", "admin/boot", "translations/zh/index"):
            put(root, f"{folder}/{name}.rst.txt", f"{version} {name}\r\nend")
    put(root, "usr/share/doc/linux-doc-7/html/_sources/other", "")
    assert list(debian.documents("linux", root)) == [
        ("linux/admin/boot.rst.txt", "6.12 admin/boot\nend"),
        ("linux/index.rst.txt", "6.12 index\nend"),
    ]


def test_another_encoding(root):
    put(root, "usr/share/games/fortunes/a", "naïve".encode("latin-1"))
    put(root, "usr/share/games/fortunes/b", "naïve")
    assert set(texts("fortunes", root).values()) == {"naïve"}


def test_a_group_is_its_packages_in_order(root):
    for name in ("devil", "foldoc", "gcide", "jargon"):
        put(root, f"usr/share/dictd/{name}.dict.dz", dictzip(f"of {name}"))
    with pytest.raises(
        FileNotFoundError,
        match="lacks the text of wordnet-base; apt-get install wordnet-base ",
    ):
        debian.documents("dictionaries", root)
    put(root, "usr/share/wordnet/data.verb", "1 2 v 01 go 0 000 | move")
    found = texts("dictionaries", root)
    assert list(found.values())[1:] == [
        *("of foldoc", "of gcide", "of jargon", "go: move\n")
    ]
    # Nothing is read before it is asked for.
    put(root, "usr/share/dictd/devil.dict.dz", b"\x1f\x8b")
    lazy = debian.documents("dictionaries", root)
    with pytest.raises(ValueError, match=r"devil\.dict\.dz is damaged: "):
        next(lazy)


def test_every_name_has_packages():
    assert set(packages.GROUPS).isdisjoint(packages.PACKAGES)
    for texts in packages.GROUPS.values():
        assert set(texts) <= set(packages.PACKAGES)


@pytest.mark.parametrize("name", debian.NAMES)
def test_what_is_not_installed_is_named(name, root):
    with pytest.raises(FileNotFoundError) as error:
        debian.documents(name, root)
    said = str(error.value)
    assert said.startswith(f"--corpus=debian:{name}: {root} lacks the text of ")
    assert said.endswith(" brings it.")
    for text in packages.GROUPS.get(name, (name,)):
        assert (
            f" {packages.PACKAGES[text].name} "
            in (said.partition("; apt-get install")[2])
        )


def test_a_package_whose_documents_dpkg_left_out(root):
    put(root, "var/lib/dpkg/info/anarchism.list", "/.\n")
    with pytest.raises(FileNotFoundError, match="the package is installed, bu"):
        debian.documents("anarchism", root)


@pytest.mark.parametrize("name", ("", "Gcide", "gcide:0.1", "klingon"))
def test_names_that_are_none(name, root):
    with pytest.raises(
        ValueError, match=f"--corpus=debian:{name}: there is no .*gcide, jargon"
    ):
        debian.documents(name, root)


@pytest.mark.parametrize(
    "data",
    (
        gzip.compress(b"text" * 1000)[:-20],
        gzip.compress(b"text" * 1000)[:-8] + bytes(8),
        b"\x1f\x8b" + b"text" * 30,
    ),
)
def test_damaged_files(root, data):
    path = put(root, "usr/share/dictd/gcide.dict.dz", data)
    with pytest.raises(ValueError, match=r"is damaged: .*--reinstall") as error:
        texts("gcide", root)
    assert str(error.value).startswith(str(path))


def test_program(root, capsys):
    put(root, "usr/share/games/fortunes/a", "one two\nthrée")
    put(root, "usr/share/games/fortunes/b", "four")

    def run(*arguments):
        program.run(
            sizes.main,
            sizes.flags,
            ["sizes", f"--root={root}", *arguments],
            tensorflow=False,
        )
        return capsys.readouterr().out

    printed = run("--corpus=debian:fortunes", "--corpus=debian:gcide")
    assert printed.splitlines()[1].split() == ["fortunes", "2", "4", "18"]
    assert printed.splitlines()[2].endswith(
        "lacks the text of dict-gcide; apt-get install dict-gcide brings it."
    )
    assert len(run().splitlines()) == 1 + len(packages.PACKAGES)
    with pytest.raises(SystemExit, match="error: --corpus=debian:x: there is"):
        run("--corpus=debian:x")
