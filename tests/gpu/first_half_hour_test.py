"""The script of the first half hour on a GPU, with programs that play one."""

import pathlib
import subprocess

import pytest

SCRIPT = (
    pathlib.Path(__file__).resolve().parents[2]
    / "benchmarks/gpu/first_half_hour.sh"
)
# What each program does; all write down how they were called.
PROGRAMS = {
    "bin/gpu_check": """
        case "$*" in
          "--list --small") printf '%s\\n' flat "hot, in pieces" ;;
          --list) printf '%s\\n' flat huge "hot, in pieces" ;;
          --only=huge) echo "off by 1"; exit 1 ;;
          *) echo "case of $*" ;;
        esac""",
    "bin/gpu_benchmark": """
        echo "times of $*"
        for argument; do
          case $argument in --csv=*) echo "csv of $*" >"${argument#*=}" ;; esac
        done""",
    "path/nvidia-smi": "echo GPU 0",
    "path/ncu": 'echo profile; exec "${@:11}"',
    "path/compute-sanitizer": 'exec "${@:5}"',
    "path/python3": "echo peers",
}


@pytest.fixture
def machine(tmp_path):
    for name, text in PROGRAMS.items():
        program = tmp_path / name
        program.parent.mkdir(exist_ok=True)
        note = f'echo "{program.name} $*" >>"{tmp_path}/calls"'
        program.write_text(f"#!/bin/bash\n{note}\n{text}\n")
        program.chmod(0o755)
    return tmp_path


def run(machine, *arguments):
    """Returns the exit status, what was printed, and the calls made."""
    (machine / "calls").write_text("")
    path = f"{machine}/path:/usr/bin:/bin"
    done = subprocess.run(
        [SCRIPT, f"--bin={machine}/bin", f"--out={machine}/out", *arguments],
        env={"PATH": path},
        capture_output=True,
        text=True,
        check=False,
    )
    calls = (machine / "calls").read_text().splitlines()
    return done.returncode, done.stdout + done.stderr, calls


def results(machine):
    lines = (machine / "out/results.tsv").read_text().splitlines()
    return [tuple(line.split("\t")[:3]) for line in lines]


def test_every_step(machine):
    code, printed, calls = run(machine)
    assert code == 1  # the large case
    found = results(machine)
    assert ("check", "hot, in pieces", "passed") in found
    assert ("large", "huge", "failed, exit status 1") in found
    assert "not passed: large\thuge: failed, exit status 1" in printed
    assert {step for step, _, result in found if result == "passed"} == {
        *("check", "times", "profile", "memcheck", "racecheck", "peers")
    }
    # Each case by itself, and each profile of a step of the largest workload.
    assert "gpu_check --only=hot, in pieces" in calls
    assert sum(call.startswith("ncu") for call in calls) == 6
    assert "gpu_benchmark --runs=1 10m-b40k zipf tf32 step" in calls
    log = (machine / "out/log.txt").read_text()
    assert "large, huge: off by 1\n" in log
    times = (machine / "out/gpu.txt").read_text()
    assert times.startswith("times of --csv=") and "10m-b40k" in times
    assert "csv of" in (machine / "out/gpu.csv").read_text()
    assert "profile\n" in (machine / "out/profile.txt").read_text()


def test_goes_on(machine):
    run(machine, "large", "peers", "check")
    before = results(machine)
    code, _, calls = run(machine, "large", "peers", "check")
    assert code == 1
    # What failed is tried again, and nothing else.
    assert [call for call in calls if "--only" in call] == [
        "gpu_check --only=huge"
    ]
    assert not any(call.startswith("python3") for call in calls)
    assert len(results(machine)) == len(before) + 1


def test_steps_are_told_apart(machine):
    """What memcheck has passed, check has not."""
    run(machine, "sanitize")
    _, _, calls = run(machine, "check")
    assert "gpu_check --only=flat" in calls


def test_a_kernel_that_ran_nowhere(machine):
    (machine / "path/ncu").write_text(
        "#!/bin/bash\necho No kernels were profiled\n"
    )
    code, _, _ = run(machine, "profile")
    assert code == 1
    assert {result for _, _, result in results(machine)} == {
        "failed, exit status 1"
    }


def test_times_that_failed_are_no_times(machine):
    program = machine / "bin/gpu_benchmark"
    good = program.read_text()
    program.write_text(good + "exit 1\n")
    run(machine, "times")
    assert not (machine / "out/gpu.txt").exists()
    program.write_text(good)
    code, _, _ = run(machine, "times")
    assert code == 0
    assert (machine / "out/gpu.txt").read_text().count("times of") == 12


def test_time_is_up(machine):
    code, printed, calls = run(machine, "--seconds=1", "check")
    assert code == 1
    assert results(machine) == [
        ("check", name, "no time") for name in ("flat", "hot, in pieces")
    ]
    assert "0 of 2 cases passed" in printed
    assert not any("--only" in call for call in calls)


def test_what_is_missing_is_said(machine):
    (machine / "path/ncu").unlink()
    code, printed, _ = run(machine, "profile")
    assert code == 0
    assert "left out: no ncu" in printed


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["tims"], "tims is no step; the steps are check times large"),
        (["--seconds=2m"], "--seconds=2m is no number"),
        (["--bin=/nowhere"], "--bin=/nowhere must have gpu_check"),
    ],
)
def test_wrong_arguments(machine, arguments, sentence):
    code, printed, _ = run(machine, *arguments)
    assert code == 2
    assert sentence in printed


def test_without_a_gpu(machine):
    (machine / "path/nvidia-smi").write_text("#!/bin/bash\nexit 9\n")
    code, printed, _ = run(machine)
    assert code == 2
    assert "nvidia-smi finds no GPU" in printed
    code, printed, calls = run(machine, "--emulated")
    assert code == 0
    left_out = [step for step, _, why in results(machine) if "no GPU" in why]
    assert left_out == ["large", "profile", "sanitize", "peers"]
    assert "gpu_benchmark" in calls[-1] and "--tiny" in calls[-1]
