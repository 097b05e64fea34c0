"""The files for Slurm and Kubernetes give each worker its TF_CONFIG."""

import json
import os
import pathlib
import subprocess
import sys
import textwrap

LAUNCH = pathlib.Path("examples/distributed/launch")
# Stand-ins for the commands of Slurm in a job of two nodes.
COMMANDS = {
    "scontrol": "echo node1; echo node2",
    "srun": 'shift; for i in 0 1; do SLURM_PROCID=$i "$@"; done',
}
PRINT_CONFIG = f"""exec {sys.executable} -c '
import json, os, sys
print(json.dumps([sys.argv[1:], json.loads(os.environ["TF_CONFIG"])]))
' "$@\""""


def run(command, folder, **environment):
    """The arguments and the TF_CONFIG of each Python that a command starts."""
    for name, text in {**COMMANDS, "python": PRINT_CONFIG}.items():
        program = folder / name
        program.write_text(f"#!/bin/bash\n{text}\n")
        program.chmod(0o755)
    path = f"{folder}:{os.environ['PATH']}"
    found = subprocess.run(
        command,
        env={**os.environ, **environment, "PATH": path},
        capture_output=True,
        text=True,
        check=True,
    )
    return [json.loads(line) for line in found.stdout.splitlines()]


def test_slurm(tmp_path):
    found = run(
        ["bash", LAUNCH / "workers.sbatch"],
        tmp_path,
        SLURM_JOB_NODELIST="node[1-2]",
        CHECKPOINTS="/a folder/b",
    )
    assert len(found) == 2
    for index, (arguments, config) in enumerate(found):
        assert arguments == [
            "-m",
            "examples.distributed.workers",
            "--checkpoints=/a folder/b",
        ]
        assert config == {
            "cluster": {"worker": ["node1:2222", "node2:2222"]},
            "task": {"type": "worker", "index": index},
        }


def test_kubernetes(tmp_path):
    text = (LAUNCH / "workers.yaml").read_text()
    _, script = text.split("- |\n")
    script = textwrap.dedent(script[: script.index("          ports:")])
    ((arguments, config),) = run(
        ["bash", "-ceu", script],
        tmp_path,
        COUNT="2",
        JOB_COMPLETION_INDEX="1",
    )
    assert arguments[-1] == "--checkpoints=/checkpoints"
    hosts = ["workers-0.workers:2222", "workers-1.workers:2222"]
    assert config == {
        "cluster": {"worker": hosts},
        "task": {"type": "worker", "index": 1},
    }
