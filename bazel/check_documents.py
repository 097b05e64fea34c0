"""Checks that what the documents name is there: files, and Bazel's targets.

A relative link names a file, and the part after # one of its headings. A test's
name in backquotes behind a link to a file names a test of that file. The labels
of `bazel build`, `run` and `test` name targets. What such a command does is
checked by tests/package/documents_test.py.

It also checks the English of documents, comments and docstrings: no sentence
begins with "Of", and few words of the package stand in place of a noun.
"""

import pathlib
import re
import sys

_ROOT = pathlib.Path(__file__).resolve().parents[1]
_DOCUMENTS = (
    "*.md",
    "docs/*.md",
    "benchmarks/*.md",
    "examples/*/*.md",
    "tests/*.md",
)
_CODE = re.compile(r"^```.*?^```$|`[^`]*`", re.M | re.S)
_LINK = re.compile(r"\]\(([^)\s]+)\)")
_TEST = re.compile(r"\]\(([^)\s]+\.py)\) `(test_\w+)`")
_FOLDERS = ("docs", "examples", "tf_hsm", "tests", "benchmarks", "bazel", "cc")
_CODE_SUFFIXES = (".py", ".sh", ".h", ".cc", ".cu")
_OF = re.compile(r"(?:^|[.:;]\s+|#\s+|^\s*[-*]\s+)Of [a-z]", re.M)
# In code: comments and docstrings, but not a C++ function that is called Of.
_OF_IN_CODE = re.compile(r'(?:^\s*|[.:;]\s+|"""|#\s+|//\s+)Of\s', re.M)
_STAND_IN = re.compile(r"\b(?:those of|that of|likewise|so are)\b")
_MOST_STAND_INS = 40
_BAZEL = re.compile(r"bazel (?:build|run|test)((?: +[-/][^\s`]*|(?<=-c) opt)+)")


def _complaints(path):
    """Yields what is wrong with one document."""
    text = path.read_text()
    for target in _LINK.findall(_CODE.sub("", text)):
        if "://" in target:
            continue
        name, _, heading = target.partition("#")
        file = path.parent / name if name else path
        if not file.exists():
            yield f"there is no {target}"
        elif heading and heading not in _anchors(file.read_text()):
            yield f"{file.name} has no heading #{heading}"
    for name, test in _TEST.findall(text):
        file = path.parent / name
        if file.exists() and f"def {test}(" not in file.read_text():
            yield f"{name} has no {test}"
    for arguments in _BAZEL.findall(text):
        for label in re.findall(r"//\S*", arguments.split(" -- ")[0]):
            if not _is_target(label):
                yield f"there is no target {label}"


def _anchors(text):
    """The names that links give to headings."""
    return [
        re.sub(r"[^\w\- ]", "", line).strip().lower().replace(" ", "-")
        for line in re.findall(r"^#+ (.*)$", text, re.M)
    ]


def _riddles():
    """Yields sentences that begin with "Of", and a count of stand-ins."""
    stand_ins = 0
    for path in sorted(_ROOT.glob("*.md")) + [
        path
        for folder in _FOLDERS
        for path in sorted((_ROOT / folder).rglob("*"))
        if path.suffix in (".md", *_CODE_SUFFIXES)
    ]:
        text = path.read_text()
        pattern = _OF_IN_CODE if path.suffix in _CODE_SUFFIXES else _OF
        for match in pattern.finditer(text):
            line = text.count("\n", 0, match.end() - 1) + 1
            yield f"{path.relative_to(_ROOT)}:{line}: a sentence begins with Of"
        if path.parts[len(_ROOT.parts)] == "tf_hsm":
            stand_ins += len(_STAND_IN.findall(text))
    if stand_ins > _MOST_STAND_INS:
        yield (
            f"tf_hsm has {stand_ins} times those of, that of, likewise or so "
            f"are, of at most {_MOST_STAND_INS}: name the thing"
        )


def _is_target(label):
    """Whether a package has a target, by its BUILD file and its sources."""
    package, _, name = label[2:].partition(":")
    folder = _ROOT / package.removesuffix("...")
    if package.endswith("..."):
        return folder.is_dir()
    name = name or folder.name
    build = folder / "BUILD"
    return build.exists() and (
        f'"{name}"' in build.read_text()
        or any((folder / f"{name}{end}").exists() for end in (".py", ".cc"))
        or (folder / name / "main.py").exists()
    )


def main():
    """Prints all that is missing; returns the exit status."""
    bad = [
        f"{path.relative_to(_ROOT)}: {complaint}"
        for pattern in _DOCUMENTS
        for path in sorted(_ROOT.glob(pattern))
        for complaint in _complaints(path)
    ]
    bad += _riddles()
    print("\n".join(bad) or "Documents: all links and targets are there.")
    return bool(bad)


if __name__ == "__main__":
    sys.exit(main())
