"""Times the losses of PyTorch on a GPU, on the workloads of `gpu`.

    python benchmarks/gpu/peers.py --workload 1bw --json=peers.json
    python benchmarks/gpu/peers.py --ours=gpu.txt

PyTorch and NumPy suffice. benchmarks/README.md says what exactly
is timed.
"""

import argparse
import gc
import itertools
import json
import pathlib
import statistics
import sys
import time

import numpy as np

try:
    import torch
except ModuleNotFoundError as error:
    raise ImportError(
        "gpu/peers.py needs PyTorch: pip install torch"
    ) from error

if not __package__:  # run by its path
    sys.path.insert(0, str(pathlib.Path(__file__).absolute().parents[2]))
from benchmarks.gpu import peers_report as report
from benchmarks.gpu.losses import LOSSES, Sizes

_LARGE = (4_000, 40_000, 200_000)
WORKLOADS = {
    "tiny": Sizes(1_000, 16, 32, (100, 300)),
    "1m-b400": Sizes(1_000_000, 300, 400, _LARGE),
    "10m-b400": Sizes(10_000_000, 300, 400, _LARGE),
    "10m-b40k": Sizes(10_000_000, 300, 40_000, _LARGE),
    "1bw": Sizes(793_471, 512, 2_560, _LARGE),
    "text8": Sizes(44_371, 512, 2_560, (2_000, 10_000)),
    "lm-32k": Sizes(32_000, 4_096, 16_384, (2_000, 10_000)),
    "lm-128k": Sizes(128_000, 4_096, 4_096, (4_000, 40_000)),
    "lm-256k": Sizes(256_000, 1_024, 16_384, (4_000, 40_000)),
}
LABELS = ("uniform", "zipf")
_ONLY_ZIPF = ("1bw", "text8", "lm-32k", "lm-128k", "lm-256k")
_PRECISIONS = {
    "float32": torch.float32,
    "tf32": torch.float32,
    "bfloat16": torch.bfloat16,
}
_SETS = 5  # of labels and inputs
_RUNS = 21
_CHUNKS = 3  # measured where all would take too long


def draw_labels(sizes, kind):
    """Draws `[_SETS, B]`, as `common.workloads.draw_labels` does."""
    rng, shape = np.random.default_rng(0), (_SETS, sizes.batch)
    if kind == "uniform":
        return rng.integers(sizes.num_classes, size=shape)
    cumulative = np.cumsum(1 / np.arange(1, sizes.num_classes + 1))
    return np.searchsorted(cumulative, rng.random(shape) * cumulative[-1])


def measure(name, sizes, labels, precision, step, options):
    """Times a step of one loss; returns a part of a record, see `report.text`.

    Args:
      name: a name in `LOSSES`.
      sizes: `Sizes`.
      labels: `[_SETS, B]`.
      precision: a name in `_PRECISIONS`.
      step: "forward" or "forward_backward".
      options: what the flags say.
    """
    device, dtype = options.device, _PRECISIONS[precision]
    if device != "cpu":
        products = "high" if precision == "tf32" else "highest"
        torch.set_float32_matmul_precision(products)
    torch.manual_seed(1)
    backward, chunk = step == "forward_backward", options.chunk or sizes.batch
    while True:
        try:
            shape = (_SETS, sizes.batch, sizes.width)
            inputs = torch.empty(shape, dtype=dtype, device=device)
            inputs.uniform_(-1, 1)
            loss = LOSSES[name](sizes, dtype, device)
            on_device = torch.from_numpy(labels).to(device)
            run = _runner(loss, backward, inputs, on_device, chunk)
            return _figures(run, sizes.batch, chunk, options)
        except torch.OutOfMemoryError as error:
            refusal = {"refused": str(error).partition("\n")[0]}
        # Here nothing holds the tensors of the failed attempt any more.
        inputs = loss = on_device = run = None
        gc.collect()
        torch.cuda.empty_cache()
        if chunk == 1 or not LOSSES[name].in_chunks:
            return refusal
        chunk //= 2


def _runner(loss, backward, inputs, labels, chunk):
    """A function of a turn and a number of examples: ms and the losses."""

    def run(turn, count):
        x, y = inputs[turn % _SETS, :count], labels[turn % _SETS, :count]
        with torch.set_grad_enabled(backward):
            return [
                loss.step(*part)[0] if backward else loss(*part)
                for part in zip(x.split(chunk), y.split(chunk), strict=True)
            ]

    def timed(turn, count):
        loss.zero_grad()
        return _milliseconds(lambda: run(turn, count), inputs.device.type)

    return timed


def _figures(run, batch, chunk, options):
    count = min(batch, _CHUNKS * chunk)
    run(0, count)
    ms, losses = run(1, count)
    loss = torch.cat(losses).float().mean().item()
    if ms * batch / count <= 1e3 * options.time_limit:
        ms, count = ms * batch / count, batch
    runs = min(_RUNS, max(3, int(1e3 * options.seconds / ms)))
    samples = [run(turn, count)[0] for turn in range(2, 2 + runs)]
    extrapolated = f"extrapolated from {count:,} of {batch:,} examples"
    return {
        "ms": batch / count * statistics.median(samples),
        "measured_ms": samples,
        "chunk": chunk,
        "loss": loss,
        "part": extrapolated if count < batch else None,
    }


def _milliseconds(work, device):
    """The time of `work`, on a GPU between events, and what it returned."""
    if device == "cpu":
        begin = time.perf_counter()
        result = work()
        return 1e3 * (time.perf_counter() - begin), result
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    torch.cuda.synchronize()
    begin.record()
    result = work()
    end.record()
    end.synchronize()
    return begin.elapsed_time(end), result


def _options():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    for name, known in (
        ("workload", WORKLOADS),
        ("labels", LABELS),
        ("precision", _PRECISIONS),
        ("implementation", LOSSES),
    ):
        parser.add_argument(f"--{name}", nargs="+", choices=list(known))
    parser.add_argument("--device", choices=["cuda", "cpu"], default="cuda")
    parser.add_argument("--chunk", type=int, help="examples at once, at most")
    parser.add_argument("--time_limit", type=float, default=2, help="s a step")
    parser.add_argument("--seconds", type=float, default=1, help="s a figure")
    parser.add_argument("--ours", help="what benchmarks/gpu/main.cc printed")
    parser.add_argument("--json", help="a file for all figures")
    options = parser.parse_args()
    if options.device == "cuda" and not torch.cuda.is_available():
        parser.error("PyTorch sees no GPU; --device=cpu does without")
    if options.device == "cpu" and "tf32" in (options.precision or []):
        parser.error("--precision tf32 needs --device=cuda")
    return options


def main():
    """Measures all, and prints a table for each workload and its labels."""
    options = _options()
    device = "CPU" if options.device == "cpu" else torch.cuda.get_device_name()
    content = {"device": device, "torch": torch.__version__, "figures": []}
    print(f"{device}, PyTorch {torch.__version__}", flush=True)
    ours = report.read_ours(options.ours) if options.ours else []
    precisions = options.precision or [
        name for name in _PRECISIONS if (name, device) != ("tf32", "CPU")
    ]
    for workload in options.workload or list(WORKLOADS)[1:]:
        sizes = WORKLOADS[workload]
        for kind in options.labels or LABELS[workload in _ONLY_ZIPF :]:
            labels = draw_labels(sizes, kind)
            case = {"workload": workload, "labels": kind}
            records = [
                record
                for record in ours
                if case.items() <= record.items()
                and record["precision"] in precisions
            ]
            for key in itertools.product(
                precisions,
                options.implementation or LOSSES,
                report.STEPS,
            ):
                precision, name, step = key
                names = ("precision", "implementation", "step")
                records.append(
                    case
                    | dict(zip(names, key, strict=True))
                    | measure(name, sizes, labels, precision, step, options)
                )
            title = (
                f"{workload}, {kind} labels: N={sizes.num_classes:,}, "
                f"D={sizes.width}, B={sizes.batch:,}"
            )
            print("", report.text(title, records), sep="\n")
            sys.stdout.flush()
            content["figures"] += records
            if options.json:
                text = json.dumps(content, indent=2)
                pathlib.Path(options.json).write_text(text + "\n")


if __name__ == "__main__":
    main()
