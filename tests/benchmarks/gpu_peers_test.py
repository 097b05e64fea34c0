"""The GPU benchmark of PyTorch: its losses, its workloads and the command."""

import json
import pathlib
import re
import subprocess
import sys

import numpy as np
import pytest

torch = pytest.importorskip("torch")
gpu_peers = pytest.importorskip("benchmarks.gpu.peers")
LOSSES, Sizes = gpu_peers.LOSSES, gpu_peers.Sizes

OURS = """\
read 4300 GB/s, copy 4200 GB/s; TFLOP/s: float32 60.0, tf32 495, bfloat16 790
workload  tree     labels  weights           forward /floor gradients /floor  GB
tiny      2-level  zipf    float32  exact     10.000  2.00x    40.000  4.00x \
    50.000  5.00x   0.001
tiny      2-level  zipf    bfloat16 mma        5.000  2.50x    20.000  4.00x \
    50.000  5.00x   0.001
"""


@pytest.mark.parametrize("name", LOSSES)
def test_losses_are_log_probabilities_and_steps_add_their_gradients(name):
    torch.manual_seed(0)
    sizes = Sizes(103, 20, 13, (10, 40))
    loss = LOSSES[name](sizes, torch.float64, "cpu")
    inputs = torch.empty(103, 20, dtype=torch.float64).uniform_(-9, 9)
    labels = torch.arange(103)
    one = inputs[:1].expand(103, -1)
    assert float(torch.exp(-loss(one, labels)).sum()) == pytest.approx(1)
    inputs.requires_grad_()
    expected = torch.autograd.grad(
        loss(inputs, labels).sum(), [inputs, *loss.parameters()]
    )
    halves = zip(inputs.split(60), labels.split(60), strict=True)
    steps = [loss.step(*half) for half in halves]
    losses, dx = (torch.cat(parts) for parts in zip(*steps, strict=True))
    torch.testing.assert_close(losses, loss(inputs, labels))
    found = [dx, *(p.grad for p in loss.parameters())]
    for one, other in zip(expected, found, strict=True):
        torch.testing.assert_close(other.to_dense(), one.to_dense())


def test_the_workloads_are_those_of_the_other_benchmarks():
    from benchmarks.common import workloads

    source = pathlib.Path(gpu_peers.__file__).with_name("workloads.h")
    in_gpu = re.findall(
        r'\{"([\w-]+)", (\d+), (\d+), (\d+), "(?:2-level|flat)", (\w+)\}',
        source.read_text(),
    )
    for name, sizes in gpu_peers.WORKLOADS.items():
        if name.startswith("lm-"):  # for GPUs alone
            continue
        workload = workloads.WORKLOADS[name]
        found = workload.num_classes, workload.width, workload.batch
        assert sizes[:3] == found
        kinds = [k for n, *s, k in in_gpu if n == name and name != "tiny"]
        expected = workload.labels if name != "tiny" else ()
        assert len(kinds) == len(expected)
        assert (name in gpu_peers._ONLY_ZIPF) == (workload.labels == ("zipf",))
    for kind in workloads.LABELS:
        case = workloads.Case("tiny", "two_level", kind, "float32")
        np.testing.assert_array_equal(
            gpu_peers.draw_labels(gpu_peers.WORKLOADS["tiny"], kind),
            workloads.draw_labels(case, 5),
        )


def test_the_command_writes_all_figures(tmp_path):
    """It runs by its path, from a folder that has no packages."""
    path, ours = tmp_path / "figures.json", tmp_path / "gpu.txt"
    ours.write_text(OURS)
    flags = ["--device=cpu", "--workload=tiny", "--labels=zipf"]
    flags += ["--precision=float32", "--seconds=0", "--chunk=10"]
    flags += ["--implementation", "full", "gather", "--time_limit=0"]
    result = subprocess.run(
        [
            *(sys.executable, gpu_peers.__file__, *flags),
            *(f"--ours={ours}", f"--json={path}"),
        ],
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )
    assert result.returncode == 0, result.stderr
    content = json.loads(path.read_text())
    figures = {(f["implementation"], f["step"]): f for f in content["figures"]}
    assert len(figures) == len(content["figures"]) == 8
    assert figures["ours", "forward"]["ms"] == 10
    assert figures["floor", "forward_backward"]["ms"] == 10
    assert "extrapolated from 30 of 32 examples" in result.stdout
