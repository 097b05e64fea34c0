"""The commands under signals: SIGKILL and Ctrl-C.

A server process imports TensorFlow once; each start of a command is a fork of
it.
"""

import importlib
import itertools
import multiprocessing
import os
import random
import re
import signal
import subprocess
import sys
import tempfile
import time

import numpy as np
import pytest

from examples.common import program
from examples.language_model import checkpoint
from tests.support import language_models

EPOCHS = 2
SAVE_EVERY = 12
FLAGS = (
    "--cell=rnn",
    "--branching=8",
    "--units=24",
    "--dropout=0.2",
    "--batch_size=5",
    "--steps=7",
    f"--epochs={EPOCHS}",
    f"--save_every={SAVE_EVERY}",
)
TIMEOUT_S = 300

# Where a start of the job is killed: when it has finished so many checkpoints,
# and then so many seconds later, or so many seconds into the next one.
RNG = random.Random(0)
KILLS = (
    (0, "at the first step", 0),
    (RNG.randint(1, 5), "later", RNG.uniform(0, 0.3)),
    (RNG.randint(0, 4), "into the next", RNG.uniform(0, 0.01)),
)
ATTEMPTS = 4


@pytest.fixture(autouse=True, scope="module")
def short_socket_path():
    """Keeps the server's socket out of TMPDIR, whose path may be too long."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tempfile, "tempdir", "/tmp")
        yield


text = language_models.text


@pytest.fixture(scope="module")
def whole(text, tmp_path_factory):
    """The job that nothing interrupts, at its end."""
    job = Job(text, tmp_path_factory.mktemp("jobs") / "whole")
    job.start()
    job.finish()
    return job


class Command:
    """A command in processes of its own, one after the other."""

    def __init__(self, module, arguments, log):
        """Names it and the file for what it prints; starts nothing."""
        self._module = module
        self._arguments = arguments
        self._log = log

    def start(self):
        """Starts it."""
        server = multiprocessing.get_context("forkserver")
        server.set_forkserver_preload(
            [
                f"examples.language_model.{name}"
                for name in ("run", "comparison")
            ]
        )
        self._process = server.Process(
            target=run_command,
            args=(self._module, self._arguments, self._log),
            daemon=True,
        )
        self._process.start()

    def printed(self):
        """What all starts have printed."""
        return self._log.read_text() if self._log.exists() else ""

    def wait_until(self, condition):
        """Looks about a thousand times a second, as long as the job runs."""
        deadline = time.monotonic() + TIMEOUT_S
        while not condition() and self._process.is_alive():
            assert time.monotonic() < deadline, self.printed()
            time.sleep(0.001)

    def wait_for_new(self, path):
        """Returns once another file than now has that name."""
        before = identity(path)
        self.wait_until(lambda: identity(path) not in (None, before))

    def kill(self):
        """Sends SIGKILL; returns whether the job was still running."""
        self._process.kill()
        self._process.join()
        return self._process.exitcode < 0

    def interrupt(self):
        """Sends what Ctrl-C sends."""
        os.kill(self._process.pid, signal.SIGINT)

    def interrupt_until_end(self):
        """Interrupts, again after 20 s: a destructor drops what it raises."""
        while self._process.is_alive():
            self.interrupt()
            self._process.join(20)

    def finish(self, status=0):
        """Waits for the end, which must be with that status."""
        self._process.join(TIMEOUT_S)
        assert self._process.exitcode == status, self.printed()


class Job(Command):
    """Training in one folder, started with --resume again and again."""

    def __init__(self, text, folder):
        """Names the job's corpus and its folder; starts nothing."""
        self.folder = folder
        self.model = folder / checkpoint.MODEL
        self.unfinished = folder / f".unfinished-{checkpoint.MODEL}"
        self.unfinished /= checkpoint.MODEL
        arguments = [*FLAGS, "--resume"]
        arguments += [f"--corpus={text}", f"--save_dir={folder}"]
        super().__init__("train", arguments, folder.with_suffix(".log"))


def run_command(module, arguments, log):
    """Runs a command in this process; what it prints goes to `log`."""
    with open(log, "ab") as file:
        os.dup2(file.fileno(), 1)
        os.dup2(file.fileno(), 2)
    command = importlib.import_module(f"examples.language_model.{module}")
    program.run(command.main, command.flags, [module, *arguments])


def identity(path):
    """Differs between two files that have the same name in turn."""
    try:
        status = path.stat()
    except FileNotFoundError:
        return None
    return status.st_ino, status.st_ctime_ns


def run_with_kills(job):
    """Runs the job to its end, with `KILLS` on the way.

    Returns:
        Whether they came as planned: all while it ran, the first one before
        anything was saved, and another one during a save. A job can be faster
        than this process, which may be left waiting for the processor.
    """
    in_save = 0
    for num_finished, moment, seconds in KILLS:
        job.start()
        for _ in range(num_finished):
            job.wait_for_new(job.model)
        if moment == "at the first step":
            job.wait_until(lambda: "epoch 1/" in job.printed())
        elif moment == "into the next":
            job.wait_for_new(job.unfinished)
        time.sleep(seconds)
        if not job.kill():
            break
        in_save += job.unfinished.exists()
    else:
        job.start()
        job.finish()
        begun = job.printed().count("starting from the beginning")
        return in_save > 0 and begun == 2
    job.finish()
    return False


def figures(printed):
    """The printed figures but durations, of each epoch and of the end."""
    epochs = re.findall("perplexity: train .*", printed)
    ends = re.findall("Test: loss.*", printed, re.S)
    # A kill right after figures are printed lets them come again.
    return list(dict.fromkeys(epochs)), set(ends)


def without_durations(history):
    """The entries of each epoch that do not differ between two runs."""
    return [
        {k: v for k, v in entry.items() if k == "epoch" or "perplexity" in k}
        for entry in history
    ]


def places(job, num_steps):
    """Where each start of the job began, as a number of checkpoints."""
    epoch = num_steps // EPOCHS
    checkpoints = [
        begin + done
        for begin in range(0, num_steps, epoch)
        for done in range(0, epoch, SAVE_EVERY)
    ]
    checkpoints.append(num_steps)
    begins = re.findall("Nothing is saved|Resuming after [0-9]+", job.printed())
    return [checkpoints.index(int("0" + re.sub(r"\D", "", b))) for b in begins]


def assert_same_models(job, other):
    """Two jobs have saved the same bits; returns the model of the first."""
    model, run = checkpoint.load(job.folder)
    other_model, other_run = checkpoint.load(other.folder)
    assert without_durations(run.history) == without_durations(
        other_run.history
    )
    for a, b in zip(
        model.variables + model.optimizer.variables,
        other_model.variables + other_model.optimizer.variables,
        strict=True,
    ):
        np.testing.assert_array_equal(a.numpy(), b.numpy(), err_msg=a.path)
    return model


def test_a_killed_job_ends_as_if_it_was_not(text, whole, tmp_path):
    for attempt in range(ATTEMPTS):
        killed = Job(text, tmp_path / f"killed{attempt}")
        as_planned = run_with_kills(killed)
        assert figures(killed.printed()) == figures(whole.printed())
        model = assert_same_models(killed, whole)
        # No start loses a checkpoint that was finished before.
        begins = places(killed, int(model.optimizer.iterations))
        for (begin, end), kill in zip(
            itertools.pairwise(begins), KILLS, strict=as_planned
        ):
            assert end - begin >= kill[0]
        assert set(os.listdir(killed.folder)) == set(os.listdir(whole.folder))
        if as_planned:
            return
    pytest.fail("This process was too slow for the job, again and again.")


def test_ctrl_c_while_reading(tmp_path):
    """In a real process: the first line is ours, and the status is 130."""
    environment = {**os.environ, "PYTHONUNBUFFERED": "1"}
    environment.pop("TF_CPP_MIN_LOG_LEVEL", None)
    process = subprocess.Popen(
        [
            sys.executable,
            "-m",
            "examples.language_model.train",
            f"--save_dir={tmp_path}",
        ],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env=environment,
        text=True,
    )
    first = process.stdout.readline()
    process.send_signal(signal.SIGINT)
    rest, _ = process.communicate(timeout=TIMEOUT_S)
    assert first == "Reading the corpus, stdlib ...\n"
    assert rest == "\nInterrupted.\n"
    assert process.returncode == 130


def test_ctrl_c_in_training(text, whole, tmp_path):
    """It saves after the step; a second one would have ended it at once."""
    job = Job(text, tmp_path / "job")
    for begins in ("epoch 1/", "epoch 2/"):
        job.start()
        job.wait_until(lambda begins=begins: begins in job.printed())
        job.interrupt()
        job.finish(status=130)
        printed = job.printed()
        assert "\nInterrupted: saving. Ctrl-C again ends at once.\n" in printed
        end = (
            "\nInterrupted. The run is saved, [0-9]+ steps into epoch [12]. "
            "The same command with --resume continues.\n$"
        )
        assert re.search(end, printed), printed
    job.start()
    job.finish()
    assert_same_models(job, whole)


def test_a_second_ctrl_c_ends_at_once():
    with pytest.raises(KeyboardInterrupt), program.interruption() as pressed:
        assert not pressed()
        os.kill(os.getpid(), signal.SIGINT)
        assert pressed()
        os.kill(os.getpid(), signal.SIGINT)
    # Before and behind it, the first one does.
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_ctrl_c_in_compare(text, tmp_path):
    arguments = ["--heads=full,binary", "--batch_size=4", "--units=8"]
    arguments += [f"--corpus={text}", f"--save_dir={tmp_path}"]
    compare = Command("compare", arguments, tmp_path / "log")
    compare.start()
    compare.wait_until(lambda: "full softmax, seed" in compare.printed())
    compare.interrupt_until_end()
    compare.finish(status=130)
    message = (
        "\nInterrupted. 0 of 2 runs were done; the same command with --resume "
        "continues.\n"
    )
    assert compare.printed().endswith(message)


def test_ctrl_c_in_generate(whole, tmp_path):
    arguments = [f"--model={whole.folder}", "--length=1000000"]
    arguments.append("--prompt=unheard")
    generate = Command("generate", arguments, tmp_path / "log")
    generate.start()
    generate.wait_until(lambda: "not learned them" in generate.printed())
    generate.interrupt()
    generate.finish(status=130)
    assert generate.printed().endswith("\nInterrupted.\n")
