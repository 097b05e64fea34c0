"""The machine that an estimate is for: what it does in a second."""

import dataclasses
import numbers
from collections.abc import Mapping

from tf_hsm.cost.model import CostModel
from tf_hsm.estimation.part import BYTES

# With so many rows a product takes no longer for a transposed second factor.
_MANY_ROWS = 1024
_CALL_MS = 0.1  # of a call of the op and its gradient, whatever its arguments


@dataclasses.dataclass(frozen=True)
class Machine:
    """What a machine does in a second, and how much memory it has.

    The rates are what TensorFlow reaches, not what a data sheet says.

    Attributes:
      name: how reports call it.
      flops: for names of types, such as "float32", the FLOP/s of a large matrix
        product.
      read: bytes/s of reading through memory far larger than the caches.
      read_write: bytes read plus bytes written, a second, of changing such
        memory in place.
      memory: bytes; None if unknown.
      op: seconds that a kernel in a graph takes beside its work.
      fresh: bytes/s of filling memory that the process did not have before; on
        a CPU the first touch of a page takes longest.
      transpose: seconds for each number of the second factor of a product that
        lies in memory the other way round.
      softmax: seconds for each number that passes through a softmax, beside
        reading and writing it.
      half: a product whose smallest dimension is this reaches half of `flops`.
      cost_model: the `CostModel` of trees there; by default one of the rates
        alone: 6 FLOPs for a product, 12 bytes for a touched weight and 8 for a
        logit.
      source: where the numbers come from, for reports.

    Raises:
      ValueError: a number is not positive.
    """

    name: str
    _: dataclasses.KW_ONLY
    flops: Mapping[str, float] = dataclasses.field(hash=False)
    read: float
    read_write: float
    memory: float | None = None
    op: float = 1e-5
    fresh: float | None = None
    transpose: float = 0.0
    softmax: float = 0.0
    half: float = 8.0
    cost_model: CostModel | None = None
    source: str = "rates that were given"

    def __post_init__(self):
        """Checks the numbers."""
        if self.fresh is None:
            object.__setattr__(self, "fresh", self.read_write)
        if not isinstance(self.flops, Mapping) or "float32" not in self.flops:
            raise ValueError(
                f"flops of the machine is {self.flops!r}; it must be a dict "
                'with the FLOP/s of "float32", and of other types'
            )
        for dtype, rate in self.flops.items():
            if dtype not in BYTES:
                raise ValueError(
                    f"flops of the machine names {dtype!r}; types are "
                    f"{', '.join(BYTES)}"
                )
            _check_positive(f"flops[{dtype!r}]", rate)
        for name in ("read", "read_write", "fresh"):
            _check_positive(name, getattr(self, name))
        if self.memory is not None:
            _check_positive("memory", self.memory)
        for name in ("op", "transpose", "softmax", "half"):
            _check_positive(name, getattr(self, name), zero=True)
        if self.cost_model is None:
            model = CostModel(
                call=_CALL_MS,
                weight=1e3 * 3 * 4 / self.read_write,
                logit=1e3 * 2 * 4 / self.read_write,
                product=1e3 * 6 / self.rate("float32"),
            )
            object.__setattr__(self, "cost_model", model)
        if not isinstance(self.cost_model, CostModel):
            raise TypeError(
                "cost_model of the machine must be a CostModel, not "
                f"{type(self.cost_model).__name__}"
            )

    def rate(self, dtype):
        """Returns the FLOP/s of a large product of numbers of a type.

        Where it is not known, the rate of float32; half of it for float64.
        """
        if dtype in self.flops:
            return self.flops[dtype]
        return self.flops["float32"] / (2 if dtype == "float64" else 1)

    def product(self, product, dtype):
        """Returns the seconds of a `part.Product` of numbers of a type.

        Each takes the larger of the arithmetic's, `2 m n k / F (1 + half /
        min(m, n, k))`, and of the memory's, each number moved once; and, with
        few rows m, the transposition.
        """
        m, n, k = product[:3]
        smallest = max(min(m, n, k), 1)
        rate = self.rate(dtype) / (1 + self.half / smallest)
        moved = BYTES[dtype] * (m * k + k * n + m * n)
        seconds = max(2 * m * n * k / rate, moved / self.read_write)
        if product.transposed:
            seconds += self.transpose * k * n * max(1 - m / _MANY_ROWS, 0)
        return product.count * seconds

    def to_dict(self):
        """Returns what `Machine.from_dict` takes, as JSON can hold it."""
        return {**dataclasses.asdict(self), "flops": dict(self.flops)}

    @classmethod
    def from_dict(cls, values):
        """Makes a machine from numbers by their names.

        Only "flops" (one number, then of float32, or a dict by types) and
        "read_write" (or "read") are needed.

        Raises:
          ValueError: a name is unknown or missing, or a number is not positive.
        """
        known = {field.name for field in dataclasses.fields(cls)}
        unknown = sorted(set(values) - known)
        if unknown:
            raise ValueError(
                f"machine has {unknown[0]!r}; its numbers are "
                f"{', '.join(sorted(known))}"
            )
        moved = [values[n] for n in ("read_write", "read") if n in values]
        if "flops" not in values or not moved:
            raise ValueError(
                f"machine has {sorted(values)}; it must have 'flops' and "
                "'read_write'"
            )
        usual = {"name": "numbers that were given", "read": moved[0]}
        values = {**usual, "read_write": moved[0], **values}
        if isinstance(values["flops"], numbers.Real):
            values["flops"] = {"float32": values["flops"]}
        if isinstance(values.get("cost_model"), Mapping):
            values["cost_model"] = CostModel(**values["cost_model"])
        return cls(**values)


def _check_positive(name, value, zero=False):
    is_real = isinstance(value, numbers.Real) and not isinstance(value, bool)
    if not is_real or not (value > 0 or (zero and value == 0)):
        least = "of at least 0" if zero else "above 0"
        raise ValueError(
            f"{name} of the machine is {value!r}; it must be a number {least}"
        )


# What a large product and a long stream reach of the rates of a data sheet.
# NVIDIA's own guide measures 60 to 90% for both.
_PRODUCT_SHARE = 0.7
_STREAM_SHARE = 0.8
# A kernel in a graph of TensorFlow on a GPU: its launch and the executor.
_GPU_OP = 1e-5
# A product fills the multiprocessors only if it has many tiles of 128 x 128.
_GPU_HALF = 64.0
# TFLOP/s without sparsity of float32 (TensorFlow's default: TF32 from Ampere
# on), float16, bfloat16 and float64; GB/s; GB. NVIDIA's data sheets: "T4 Tensor
# Core GPU" (2019); "V100 Tensor Core GPU" (2020), SXM2 of 32 GB; "A100 Tensor
# Core GPU" (2021), SXM4; "L4 Tensor Core GPU" (2023), halved where it counts
# sparsity; "H100 Tensor Core GPU" (2023) and "H200 Tensor Core GPU" (2024),
# SXM, halved too; "HGX B200" (2025), an eighth of eight, halved too. T4 and
# V100 have no bfloat16: it is float32 there.
_SHEETS = {
    "nvidia-t4": (8.1, 65, 8.1, 0.25, 320, 16),
    "nvidia-v100": (15.7, 125, 15.7, 7.8, 900, 32),
    "nvidia-l4": (60.5, 121, 121, 0.47, 300, 24),
    "nvidia-a100-40gb": (156, 312, 312, 19.5, 1555, 40),
    "nvidia-a100-80gb": (156, 312, 312, 19.5, 2039, 80),
    "nvidia-h100": (494, 989, 989, 67, 3350, 80),
    "nvidia-h200": (494, 989, 989, 67, 4800, 141),
    "nvidia-b200": (1125, 2250, 2250, 37, 8000, 180),
}


def _of_sheet(name, sheet):
    types = ("float32", "float16", "bfloat16", "float64")
    *teraflops, gigabytes, memory = sheet
    bandwidth = 1e9 * _STREAM_SHARE * gigabytes
    return Machine(
        name,
        flops={
            dtype: 1e12 * _PRODUCT_SHARE * rate
            for dtype, rate in zip(types, teraflops, strict=True)
        },
        read=bandwidth,
        read_write=bandwidth,
        memory=1e9 * memory,
        op=_GPU_OP,
        half=_GPU_HALF,
        source="from its data sheet",
    )


DEFAULT = "cpu-2-avx512"
MACHINES = {
    DEFAULT: Machine(
        "2 cores with AVX-512",
        flops={"float32": 200e9, "bfloat16": 100e9, "float64": 100e9},
        read=31e9,
        read_write=59e9,
        fresh=5e9,
        softmax=3e-9,
        cost_model=CostModel(),
        source="measured there when it was idle",
    ),
    **{name: _of_sheet(name, sheet) for name, sheet in _SHEETS.items()},
}
