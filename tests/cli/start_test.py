"""`python -m tf_hsm` as a process of its own."""

import os
import subprocess
import sys

from tf_hsm import _start


def test_start_up_lines_are_kept_from_commands_alone(monkeypatch):
    for original, expected in (
        (["python", "-m", "tf_hsm", "tree"], True),
        (["python", "-I", "-mtf_hsm"], True),
        (["python", "-m", "trainer"], False),
    ):
        monkeypatch.setattr("sys.orig_argv", original)
        monkeypatch.setattr("sys.argv", ["-m", *original[3:]])
        assert _start.is_command() == expected
        # Once the module is found, and it imports more.
        monkeypatch.setattr("sys.argv", ["__main__.py", *original[3:]])
        assert not _start.is_command()


def test_module(tmp_path):
    others = {k: v for k, v in os.environ.items() if k[:6] != "TF_CPP"}
    result = subprocess.run(
        [sys.executable, "-m", "tf_hsm", "tree", "inspect", "猫.npz"],
        env={
            **others,
            "PYTHONPATH": os.pathsep.join(sys.path),
            # A terminal that knows no Chinese.
            "PYTHONIOENCODING": "ascii",
        },
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )
    assert result.returncode == 2 and not result.stdout
    assert result.stderr == (
        "python -m tf_hsm: No such file or directory: \\u732b.npz\n"
    )
