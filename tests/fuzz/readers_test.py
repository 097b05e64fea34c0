"""The fuzzer of readers: a short run of it, and what it finds."""

import warnings

from tests.fuzz import readers


def test_damaged_files_are_read_or_refused(tmp_path):
    counts, findings = readers.read_cases(range(250), 0, tmp_path)
    assert not findings
    outcomes = {f"{name} {x}" for name in readers._READERS for x in OUTCOMES}
    assert set(counts) == outcomes and sum(counts.values()) == 250


OUTCOMES = ("read", "refused")


def test_findings(tmp_path, monkeypatch):
    def fail(path):
        raise KeyError("no such field")

    def warn(path):
        warnings.warn("not in a sentence", SyntaxWarning, stacklevel=1)

    def keep_silent(path):
        raise ValueError

    def hang(path):
        while True:
            path.exists()

    monkeypatch.setattr(readers, "_SECONDS", 0.05)
    for reader, text in (
        (fail, "KeyError: 'no such field'"),
        (warn, "SyntaxWarning: not in a sentence"),
        (keep_silent, "refused without a word"),
        (hang, "_Hang"),
    ):
        monkeypatch.setattr(readers, "_READERS", {"paths.txt": reader})
        counts, findings = readers.read_cases([7], 0, tmp_path)
        assert counts == {"paths.txt FOUND": 1}
        [[case, name, found]] = findings
        assert (case, name) == (7, "paths.txt") and text in found
