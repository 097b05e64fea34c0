"""The language model under SIGKILL and Ctrl-C.

A server process imports TensorFlow once; each start of a command is a fork of
it.
"""

import os
import re
import signal
import time

import pytest

from examples.common import program
from examples.language_model import checkpoint, train
from tests.support import forked
from tests.support.texts import write_sentences
from tests.support.training import assert_same

SAVE_EVERY = 12
FLAGS = (
    *("--cell=rnn", "--tree=huffman", "--branching=8", "--units=24"),
    *("--dropout=0.2", "--batch_size=5", "--steps=7", "--epochs=2", "--resume"),
    f"--save_every={SAVE_EVERY}",
)
TIMEOUT_S = 300


@pytest.fixture(scope="module")
def text(tmp_path_factory):
    """A file of sentences."""
    return write_sentences(tmp_path_factory.mktemp("text"), 300)


@pytest.fixture(scope="module")
def whole(text, tmp_path_factory):
    """The job that nothing interrupts, at its end."""
    job = Job(text, tmp_path_factory.mktemp("jobs") / "whole")
    job.start()
    job.finish()
    return job


class Job:
    """Training in one folder, started again and again."""

    def __init__(self, text, folder):
        """Names the job's corpus and its folder; starts nothing."""
        self.folder = folder
        self.unfinished = folder / f".unfinished-{checkpoint.MODEL}"
        self._log = folder.with_suffix(".log")
        self._flags = [*FLAGS, f"--corpus={text}", f"--save_dir={folder}"]

    def start(self):
        """Starts it."""
        with forked.forks("examples.language_model.run") as context:
            self.process = context.Process(
                target=run_command, args=(self._flags, self._log), daemon=True
            )
            self.process.start()

    def printed(self):
        """What all starts have printed."""
        return self._log.read_text() if self._log.exists() else ""

    def wait_until(self, condition):
        """Looks about a thousand times a second, as long as the job runs."""
        deadline = time.monotonic() + TIMEOUT_S
        while not condition() and self.process.is_alive():
            assert time.monotonic() < deadline, self.printed()
            time.sleep(0.001)

    def finish(self, status=0):
        """Waits for the end, which must be with that status."""
        self.process.join(TIMEOUT_S)
        assert self.process.exitcode == status, self.printed()


def run_command(flags, log):
    """Runs the command in this process; what it prints goes to `log`."""
    with open(log, "ab") as file:
        os.dup2(file.fileno(), 1)
        os.dup2(file.fileno(), 2)
    program.run(train.main, train.flags, ["train", *flags])


def assert_same_models(job, other):
    """Asserts that two jobs have saved the same bits and perplexities."""
    model, run = checkpoint.load(job.folder)
    other_model, other_run = checkpoint.load(other.folder)
    assert run.history == other_run.history
    assert_same(
        model.variables + model.optimizer.variables,
        other_model.variables + other_model.optimizer.variables,
    )


def test_a_killed_job_ends_as_if_it_was_not(text, whole, tmp_path):
    """It is killed before its first checkpoint, and within a later save."""
    job = Job(text, tmp_path / "killed")
    for moment in (
        lambda: "epoch 1/" in job.printed(),
        lambda: (
            (job.folder / checkpoint.MODEL).exists() and job.unfinished.exists()
        ),
    ):
        job.start()
        job.wait_until(moment)
        job.process.kill()
        job.process.join()
    job.start()
    job.finish()
    # No start loses a checkpoint that was finished before.
    begins = re.findall("Nothing is saved|Resuming after [0-9]+", job.printed())
    assert begins[:2] == ["Nothing is saved"] * 2
    assert int(begins[2].split()[-1]) % SAVE_EVERY == 0
    assert_same_models(job, whole)
    assert set(os.listdir(job.folder)) == set(os.listdir(whole.folder))


def test_ctrl_c_saves_after_the_step(text, whole, tmp_path):
    job = Job(text, tmp_path / "job")
    job.start()
    job.wait_until(lambda: "epoch 2/" in job.printed())
    os.kill(job.process.pid, signal.SIGINT)
    job.finish(status=130)
    end = (
        "\nInterrupted: saving. Ctrl-C again ends at once.\n(.*\n)*"
        "\nInterrupted. The run is saved, [0-9]+ steps into epoch 2. The same "
        "command with --resume continues.\n$"
    )
    assert re.search(end, job.printed()), job.printed()
    job.start()
    job.finish()
    assert_same_models(job, whole)
