"""`python -m tf_hsm cluster_task`: what it prints, how it ends, its errors."""

import json
import os
import signal
import socket
import subprocess
import sys

import pytest

import tf_hsm
from tests.support import programs, servers
from tf_hsm.cli import ending, program

TIMEOUT_S = 120
CLUSTER = {"ps": ["localhost:2222", "localhost:2223"], "worker": ["w:2224"]}


def test_it_serves_until_a_signal():
    """As from Ctrl-C; that of distribute/servers_test ends by SIGTERM."""
    port = servers.free_port()
    address = f"localhost:{port}"
    config = {
        "cluster": {"ps": ["localhost:1", address]},
        "task": {"type": "ps", "index": 1},
    }
    with servers.ended(
        [
            servers.start(
                *("-m", "tf_hsm", "cluster_task"),
                environment={"TF_CONFIG": json.dumps(config)},
            )
        ]
    ) as (process,):
        first = process.stdout.readline()
        begin = (
            f"ps task 1 at {address}: process {process.pid}, tf_hsm 0.1.0 "
            f"(build {tf_hsm.build_info()['build']}), TensorFlow 2.21."
        )
        assert first.startswith(begin), process.communicate()
        assert first.endswith(" GB of memory\n")
        socket.create_connection(("localhost", port), TIMEOUT_S).close()
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=TIMEOUT_S)
        assert out == f"ps task 1 at {address} ends: SIGINT\n"
        assert (process.returncode, err) == (0, "")


def test_it_ends_with_its_parent():
    port = servers.free_port()
    flags = f"--job=ps --task=3 --port={port} --with_parent"
    # The shell waits for a line, and leaves the server behind.
    shell = subprocess.Popen(
        [
            *("sh", "-c"),
            f"{sys.executable} -m tf_hsm cluster_task {flags} & read line",
        ],
        env={**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3"},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert shell.stdout.readline().startswith(f"ps task 3 at localhost:{port}:")
    out, _ = shell.communicate("end\n", timeout=TIMEOUT_S)
    assert out == (
        f"ps task 3 at localhost:{port} ends: the process that has started it "
        "has ended\n"
    )


def run(capsys, *arguments):
    return programs.outcome(capsys, program.main, "cluster_task", *arguments)


def test_a_port_that_is_taken(capsys, monkeypatch):
    """By a server as TensorFlow's, beside which it would listen too."""
    # It would take the signals of this process.
    monkeypatch.setattr(ending, "prepare", lambda with_parent: None)
    port = servers.free_port()
    with socket.create_server(
        ("", port),
        family=socket.AF_INET6,
        dualstack_ipv6=True,
        reuse_port=True,
    ):
        status, out, err = run(capsys, "--job=ps", "--task=1", f"--port={port}")
    assert (status, out) == (2, [])
    assert err == [
        f"python -m tf_hsm: port {port} cannot be served: another process "
        "listens there"
    ]


@pytest.mark.parametrize(
    ("config", "message"),
    (
        (None, "nothing says which task to run: set TF_CONFIG, or give"),
        ("{", "TF_CONFIG is no JSON: "),
        ("[]", "TF_CONFIG is [], but must be a dict in JSON, as {"),
        ({"cluster": CLUSTER}, "TF_CONFIG has no task, which has the form {"),
        (
            {"task": {"type": "ps", "index": 0}},
            "TF_CONFIG has no cluster, which has the form {",
        ),
        ({"cluster": {"ps": [7]}}, 'cluster["ps"][0] is 7, but must be "host'),
        (
            {"cluster": CLUSTER, "task": {"type": "ps"}},
            "TF_CONFIG: task is {'type': 'ps'}, but must have a type and an",
        ),
        (
            {"cluster": CLUSTER, "task": {"type": "ps", "index": "one"}},
            "TF_CONFIG: task[\"index\"] is 'one', but must be an integer",
        ),
        (
            {"cluster": CLUSTER, "task": {"type": "ps", "index": 2}},
            "TF_CONFIG: task has the index 2, but the tasks of ps have 0, 1",
        ),
        (
            {"cluster": CLUSTER, "task": {"type": "cps", "index": 0}},
            "task has the job 'cps', but the cluster has ps, worker",
        ),
    ),
)
def test_configurations_that_are_wrong(capsys, monkeypatch, config, message):
    monkeypatch.delenv("TF_CONFIG", raising=False)
    if config is not None:
        text = config if isinstance(config, str) else json.dumps(config)
        monkeypatch.setenv("TF_CONFIG", text)
    status, out, (line,) = run(capsys)
    assert (status, out) == (2, [])
    assert line.startswith("python -m tf_hsm: ") and message in line


@pytest.mark.parametrize(
    ("flags", "message"),
    (
        ([], "nothing says which task to run: set TF_CONFIG, or give"),
        (["--port=0"], "--port is 0, but must be 1 to 65535"),
        (["--port=65536"], "--port is 65536, but must be 1 to 65535"),
        (["--port=x"], "argument --port: invalid int value: 'x'"),
        (["--port=1", "--task=-1"], "--task is -1, but must be 0 or more"),
        *(
            (["--port=1", f"--job={job}"], f"--job has the job {job!r}, but a")
            for job in ("", "a b", "1x", "ps:0", "worker/1", "_x", "é")
        ),
        (["--port=1", "--cluster={}"], "--port and --cluster both say where"),
        (["--cluster={}"], "--cluster is {}, but must be a dict from each job"),
        (
            [f"--cluster={json.dumps(CLUSTER)}", "--task=5"],
            "the task to run has the index 5, but the tasks of ps have 0, 1",
        ),
    ),
)
def test_flags_that_are_wrong(capsys, monkeypatch, flags, message):
    monkeypatch.delenv("TF_CONFIG", raising=False)
    status, out, (line,) = run(capsys, "--job=ps", "--task=0", *flags)
    assert (status, out) == (2, [])
    assert message in line


@pytest.mark.parametrize(
    ("flags", "message"),
    (
        (["--job=worker", "--task=3"], "the tasks of worker have 0"),
        (["--task=5"], "has the index 5, but the tasks of ps have 0, 1"),
        (["--task=1", '--cluster={"ps": ["a:1"]}'], "tasks of ps have 0"),
    ),
)
def test_flags_go_before_the_variable(capsys, monkeypatch, flags, message):
    config = {"cluster": CLUSTER, "task": {"type": "ps", "index": 0}}
    monkeypatch.setenv("TF_CONFIG", json.dumps(config))
    monkeypatch.setattr(ending, "prepare", lambda _: pytest.fail("it runs"))
    status, out, (line,) = run(capsys, *flags)
    assert (status, out) == (2, [])
    assert line.endswith(message)


def test_help_warns(capsys):
    status, out, err = run(capsys, "--help")
    assert (status, err) == (0, [])
    assert out[0].startswith("Runs one task of a cluster")
    assert "no authentication" in " ".join(out)
