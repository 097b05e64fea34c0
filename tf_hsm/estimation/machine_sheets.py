"""A few machines by their names, from published rates."""

from typing import NamedTuple

from tf_hsm.cost.model import CostModel
from tf_hsm.estimation.machine_type import Machine

# What a large product and a long stream reach of the rates of a data sheet.
# NVIDIA's own guide measures 60 to 90% for both.
PRODUCT_SHARE = 0.7
STREAM_SHARE = 0.8

# A kernel in a graph of TensorFlow on a GPU: its launch and the executor.
_GPU_OP = 1e-5
# A product fills the multiprocessors only if it has many tiles of 128 x 128.
_GPU_HALF = 64.0

# Two cores with AVX-512, as `calibrate` found one when it was idle.
_CPU = Machine(
    name="2 cores with AVX-512",
    flops={"float32": 200e9, "bfloat16": 100e9, "float64": 100e9},
    read=31e9,
    read_write=59e9,
    fresh=5e9,
    op=1e-5,
    softmax=3e-9,
    half=8.0,
    cost_model=CostModel(),
    source="measured there when it was idle",
)


class _Sheet(NamedTuple):
    """A data sheet: TFLOP/s without sparsity, GB/s, GB.

    float32 is what TensorFlow uses by default: TF32 from Ampere on.
    """

    float32: float
    float16: float
    bfloat16: float
    float64: float
    bandwidth: float
    memory: float


# NVIDIA's data sheets: "T4 Tensor Core GPU" (2019); "V100 Tensor Core GPU"
# (2020), SXM2 of 32 GB; "A100 Tensor Core GPU" (2021), SXM4; "L4 Tensor Core
# GPU" (2023), halved where it counts sparsity; "H100 Tensor Core GPU" (2023)
# and "H200 Tensor Core GPU" (2024), SXM, likewise; "HGX B200" (2025), an eighth
# of eight, likewise. T4 and V100 have no bfloat16: it is float32 there.
_SHEETS = {
    "nvidia-t4": _Sheet(8.1, 65, 8.1, 0.25, 320, 16),
    "nvidia-v100": _Sheet(15.7, 125, 15.7, 7.8, 900, 32),
    "nvidia-l4": _Sheet(60.5, 121, 121, 0.47, 300, 24),
    "nvidia-a100-40gb": _Sheet(156, 312, 312, 19.5, 1555, 40),
    "nvidia-a100-80gb": _Sheet(156, 312, 312, 19.5, 2039, 80),
    "nvidia-h100": _Sheet(494, 989, 989, 67, 3350, 80),
    "nvidia-h200": _Sheet(494, 989, 989, 67, 4800, 141),
    "nvidia-b200": _Sheet(1125, 2250, 2250, 37, 8000, 180),
}


def _machine_of(name, sheet):
    bandwidth = 1e9 * STREAM_SHARE * sheet.bandwidth
    return Machine(
        name=name,
        flops={
            dtype: 1e12 * PRODUCT_SHARE * getattr(sheet, dtype)
            for dtype in ("float32", "float16", "bfloat16", "float64")
        },
        read=bandwidth,
        read_write=bandwidth,
        memory=1e9 * sheet.memory,
        op=_GPU_OP,
        half=_GPU_HALF,
        source="from its data sheet",
    )


DEFAULT = "cpu-2-avx512"
MACHINES = {
    DEFAULT: _CPU,
    **{name: _machine_of(name, sheet) for name, sheet in _SHEETS.items()},
}
