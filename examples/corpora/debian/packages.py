"""Debian's packages with running text: their files, and how to read them."""

from collections.abc import Callable
from typing import NamedTuple

from examples.corpora.debian import markup


class Package(NamedTuple):
    """A package.

    Attributes:
        name: for `apt-get install`.
        folder: of the files, below the root; a pattern, since some have the
            version in their path. The newest of several counts.
        files: a pattern below the folder.
        read: from the text of a file to running text.
        skipped: a regular expression for paths below the folder.
    """

    name: str
    folder: str
    files: str
    read: Callable[[str], str] = markup.plain
    skipped: str | None = None


_DICTIONARIES = {
    name: Package(
        f"dict-{name}",
        "usr/share/dictd",
        f"{name}.dict.dz",
        markup.dictionary,
    )
    for name in ("devil", "foldoc", "gcide", "jargon")
}
_LITERATURE = {
    "anarchism": Package(
        "anarchism", "usr/share/doc/anarchism/html", "*.html", markup.web_page
    ),
    "fortunes": Package(
        "fortunes",
        "usr/share/games/fortunes",
        "*",
        markup.fortunes,
        skipped=r"\.(dat|u8)$",
    ),
    "wordnet": Package(
        "wordnet-base", "usr/share/wordnet", "data.*", markup.glosses
    ),
}
_MANUALS = {
    "git": Package("git-doc", "usr/share/doc/git-doc", "**/*.txt"),
    "handbook": Package(
        "debian-handbook",
        "usr/share/doc/debian-handbook/html/en-US",
        "*.html",
        markup.web_page,
    ),
    "installation": Package(
        "installation-guide-amd64",
        "usr/share/doc/installation-guide-amd64/en",
        "install.en.txt.gz",
    ),
    "linux": Package(
        "linux-doc",
        "usr/share/doc/linux-doc*/html/_sources",
        "**/*.rst.txt",
        skipped=r"^translations/",
    ),
    "perl": Package(
        "perl-doc",
        "usr/share/perl/*/pod",
        "*.pod",
        markup.pod,
        skipped="^perldiag",  # which perl itself brings
    ),
    "policy": Package(
        "debian-policy",
        "usr/share/doc/debian-policy/policy.html/_sources",
        "*.rst.txt",
    ),
    "postgresql": Package(
        "postgresql-doc",
        "usr/share/doc/postgresql-doc-*/html",
        "*.html",
        markup.web_page,
    ),
    "python": Package(
        "python3-doc", "usr/share/doc/python3*/html/_sources", "**/*.rst.txt"
    ),
    "reference": Package(
        "debian-reference-en",
        "usr/share/debian-reference",
        "debian-reference.en.txt.gz",
    ),
    "sqlite": Package(
        "sqlite3-doc",
        "usr/share/doc/sqlite3",
        "**/*.html",
        markup.web_page,
    ),
}
_ENGLISH = {**_DICTIONARIES, **_LITERATURE, **_MANUALS}

PACKAGES = {
    **_ENGLISH,
    "littre": Package(
        "stardict-xmlittre",
        "usr/share/stardict/dic",
        "XMLittre.dict.dz",
        markup.tagged,
    ),
}
GROUPS = {
    "dictionaries": (*_DICTIONARIES, "wordnet"),
    "manuals": tuple(_MANUALS),
    "english": tuple(_ENGLISH),
}
