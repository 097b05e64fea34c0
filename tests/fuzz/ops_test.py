"""Forged arguments of every raw op; ops.py makes far more of them."""

from tests.fuzz import ops
from tests.support import op_calls, random_calls
from tf_hsm.runtime.library import raw_ops


def test_every_op_is_called():
    made = {op_calls.raw_name(*op) for op in random_calls.OPS}
    there = {name for name in dir(raw_ops) if "tf_hsm_" in name}
    there = {name for name in there if not name.startswith("_")}
    there = {name for name in there if not name.endswith("_eager_fallback")}
    library = ("constants", "cpu_isa", "version")
    assert made == there - {f"tf_hsm_{name}" for name in library}


def test_hostile_calls(capsys):
    """No call ends the process; each returns or raises an error of ours.

    And a training step that fails has changed no variable.
    """
    calls = 60 * len(random_calls.OPS)
    assert ops.main([f"--calls={calls}", "--seed=7"]) == 0
    output = capsys.readouterr().out
    assert f"{calls:,} calls" in output and ": 0 bad;" in output
