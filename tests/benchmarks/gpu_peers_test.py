"""The GPU benchmark of PyTorch: workloads, measurements and the command."""

import argparse
import json
import math
import pathlib
import re
import subprocess
import sys

import numpy as np
import pytest

torch = pytest.importorskip("torch")
gpu_peers = pytest.importorskip("benchmarks.gpu.peers")
report = pytest.importorskip("benchmarks.gpu.peers_report")
LOSSES, Sizes = gpu_peers.LOSSES, gpu_peers.Sizes

OURS = """\
read 4300 GB/s, copy 4200 GB/s; TFLOP/s: float32 60.0, tf32 495, bfloat16 790
workload  tree     labels  weights           forward /floor gradients /floor
tiny      2-level  zipf    float32  exact     10.000  2.00x    40.000  4.00x \
    50.000  5.00x
tiny      2-level  zipf    bfloat16 mma        5.000  2.50x    20.000  4.00x \
    50.000  5.00x
tiny      binary   uniform float32  exact     77.000  2.00x    77.000  4.00x \
    77.000  5.00x
"""


def test_the_workloads_are_those_of_the_other_benchmarks():
    pytest.importorskip("tf_hsm.tree")
    from benchmarks.common import workloads

    for name, sizes in gpu_peers.WORKLOADS.items():
        workload = workloads.WORKLOADS[name]
        assert sizes[:3] == (
            workload.num_classes,
            workload.width,
            workload.batch,
        )
        others = workloads.WORKLOADS["1bw"].cutoffs
        assert sizes.cutoffs == (workload.cutoffs or others)
        assert (name in gpu_peers._ONLY_ZIPF) == (workload.labels == ("zipf",))
    assert LOSSES["adaptive"].div_value == workloads.DIV_VALUE
    for kind in workloads.LABELS:
        case = workloads.Case("tiny", "two_level", kind, "float32")
        np.testing.assert_array_equal(
            gpu_peers.draw_labels(gpu_peers.WORKLOADS["tiny"], kind),
            workloads.draw_labels(case, 5),
        )


def test_the_workloads_are_those_of_gpu():
    source = pathlib.Path(gpu_peers.__file__).with_name("workloads.h")
    loads = re.findall(
        r'\{"([\w-]+)", (\d+), (\d+), (\d+), "2-level", (\w+)\}',
        source.read_text(),
    )
    loads = [load for load in loads if load[0] != "tiny"]
    expected = [
        (name, *map(str, sizes[:3]), str(kind == "zipf").lower())
        for name, sizes in gpu_peers.WORKLOADS.items()
        if name != "tiny"
        for kind in gpu_peers.LABELS[name in gpu_peers._ONLY_ZIPF :]
    ]
    assert sorted(loads) == sorted(expected)


@pytest.mark.parametrize(
    ("name", "backward", "numbers", "expected"),
    [
        # 1,000 rows of 17 numbers, twice with their gradients; 2,000 each.
        ("full", False, 43_000, 13),
        ("full", False, 42_999, 12),
        ("full", True, 54_000, 10),
        # 32 groups of 32 and the root's; a copied group each.
        ("gather", False, 33 * 32 * 17 + 13 * 512, 13),
        ("gather", False, 33 * 32 * 17 + 13 * 512 - 1, "needs 98.4 kB, 98.4"),
        ("gather", True, 33 * 32 * 17 + 26 * 512 - 1, "needs 125 kB"),
        # A head of 102, tails of 200 and 700 with widths 4 and 1, thrice.
        ("adaptive", True, 3 * 3_212 + 4 * 816, 1),
        ("adaptive", True, 3 * 3_212 + 4 * 816 - 1, "needs 51.6 kB"),
    ],
)
def test_what_fits_into_memory(name, backward, numbers, expected):
    sizes = Sizes(1_000, 16, 13, (100, 300))
    arguments = LOSSES[name], sizes, torch.float32, backward, 4 * numbers
    if isinstance(expected, str):
        with pytest.raises(MemoryError, match=expected):
            gpu_peers.fit(*arguments)
        return
    assert gpu_peers.fit(*arguments) == expected


def options(**changes):
    defaults = {
        "device": "cpu",
        "memory_gb": None,
        "time_limit": 1_000,
        "seconds": 0,
    }
    return argparse.Namespace(**(defaults | changes))


def measure(name="full", step="forward_backward", **changes):
    sizes = gpu_peers.WORKLOADS["tiny"]
    labels = gpu_peers.draw_labels(sizes, "zipf")
    return gpu_peers.measure(
        name, sizes, labels, "float32", step, options(**changes)
    )


@pytest.mark.parametrize("step", report.STEPS)
@pytest.mark.parametrize("name", LOSSES)
def test_it_measures_the_whole_batch(name, step):
    result = measure(name, step)
    assert result["part"] is None
    assert result["chunk"] == 32
    assert len(result["measured_ms"]) == 3
    assert result["ms"] == sorted(result["measured_ms"])[1] > 0
    # Small weights: all classes are about as likely.
    if name in ("gather", "full"):
        assert result["loss"] == pytest.approx(math.log(1_000), abs=0.2)


def test_it_extrapolates_from_chunks():
    result = measure(memory_gb=0.216e-3, time_limit=0)
    assert result["chunk"] == 10
    middle = sorted(result["measured_ms"])[1]
    assert result["ms"] == pytest.approx(middle * 32 / 30)
    assert "30 of 32 examples" in result["part"]


def test_our_figures_are_read(tmp_path):
    path = tmp_path / "gpu.txt"
    path.write_text(OURS)
    case = {"workload": "tiny", "labels": "zipf"}
    figures = [
        ("float32", "ours", "forward", 10),
        ("float32", "floor", "forward", 5),
        ("float32", "ours", "forward_backward", 40),
        ("float32", "floor", "forward_backward", 10),
        ("bfloat16", "ours", "forward", 5),
        ("bfloat16", "floor", "forward", 2),
        ("bfloat16", "ours", "forward_backward", 20),
        ("bfloat16", "floor", "forward_backward", 5),
    ]
    names = ("precision", "implementation", "step", "ms")
    assert report.read_ours(path) == [
        case | dict(zip(names, figure, strict=True)) for figure in figures
    ]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("nothing\n", "must be the output of gpu"),
        (OURS.replace("50.000  5.00x", "50.000  5.00x  out of"), "an error"),
    ],
)
def test_a_file_without_our_figures_is_an_error(tmp_path, text, message):
    path = tmp_path / "gpu.txt"
    path.write_text(text)
    with pytest.raises(ValueError, match=message):
        report.read_ours(path)


def run_command(folder, *flags):
    """Runs the file by its path, from a folder that has no packages."""
    return subprocess.run(
        [sys.executable, gpu_peers.__file__, *flags],
        cwd=folder,
        capture_output=True,
        text=True,
    )


def test_the_command_prints_and_writes_all_figures(tmp_path):
    path, ours = tmp_path / "figures.json", tmp_path / "gpu.txt"
    ours.write_text(OURS)
    flags = ["--device=cpu", "--workload=tiny", "--labels=zipf"]
    flags += ["--precision=float32", "--implementation", "full", "gather"]
    limits = ["--seconds=0", "--memory_gb=0.216e-3", "--time_limit=0"]
    result = run_command(
        tmp_path, *flags, *limits, f"--ours={ours}", f"--json={path}"
    )
    assert result.returncode == 0, result.stderr
    content = json.loads(path.read_text())
    assert content["torch"] == torch.__version__
    figures = {(f["implementation"], f["step"]): f for f in content["figures"]}
    assert len(figures) == len(content["figures"]) == 8
    assert figures["ours", "forward"]["ms"] == 10
    lines = result.stdout.splitlines()
    assert lines[0] == f"CPU, PyTorch {torch.__version__}"
    assert "tiny, zipf labels: N=1,000, D=16, B=32" in lines
    table = {tuple(line.split()[:2]): line.split()[2:] for line in lines}
    assert table["float32", "ours"] == ["10.0", "1.00", "40.0", "1.00"]
    assert table["float32", "floor"] == ["5.00", "0.50", "10.0", "0.25"]
    cells = table["float32", "full"]
    ms = figures["full", "forward_backward"]["ms"]
    assert cells[2].startswith("~")
    assert float(cells[3]) == pytest.approx(ms / 40, abs=0.01)
    assert "extrapolated from 30 of 32 examples" in result.stdout


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--device=cpu", "--precision=tf32"], "tf32 needs --device=cuda"),
        (["--workload=huge"], "invalid choice: 'huge'"),
        ([], "no GPU"),
    ],
)
def test_wrong_flags_are_refused(monkeypatch, capsys, flags, message):
    monkeypatch.setattr(sys, "argv", ["peers", *flags])
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(SystemExit, match="2"):
        gpu_peers.main()
    assert message in capsys.readouterr().err
