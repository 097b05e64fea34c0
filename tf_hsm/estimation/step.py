"""What a step of all parts takes: its time, and its peak of memory.

A pass over a part takes the longer of its arithmetic and of its memory
(Williams et al., 2009: Roofline), and a moment for each kernel:

    max(flops / F, bytes / M) + ops t + new (1 / M_new - 1 / M) + softmax e

Memory that is new to the process is filled at a rate of its own, M_new: a CPU
meets each page for the first time. A number that passes through a softmax takes
e more, for its exponential. Matrix products whose shapes are known are
timed one by one by `Machine.product`, since small ones reach less than F; the
formula is for the rest. Where that is too simple, a part tells its own seconds
(`Part.seconds`).

What a large tensor had goes back to the system when it is freed. What small
ones had stays with the process, and only small ones can have it again (glibc:
M_MMAP_THRESHOLD, at most 32 MiB). So the two have peaks of their own: the most
that small ones ever had is there whenever large ones have theirs.
"""

from tf_hsm.estimation.part import BYTES

GIVEN_BACK = 32 << 20  # bytes of a tensor, from which on it is large


def seconds(parts, machine, setting):
    """Returns `(forward, backward, update)` in seconds for each `Part`."""
    compute_dtype, found = setting.compute_dtype, []
    for part in parts:
        forward = of_work(part.forward, machine, compute_dtype)
        backward = of_work(part.backward, machine, compute_dtype)
        update = of_work(part.update, machine, setting.dtype)
        if part.seconds is not None:
            # Known as a whole: the passes share it as by the formula.
            both, whole = forward + backward, part.seconds(machine)
            share = forward / both if both else 1 / 3
            forward, backward = whole * share, whole * (1 - share)
        found.append((forward, backward, update))
    return found


def of_work(work, machine, dtype):
    """Returns the seconds of a `Work` on numbers of a type."""
    products = sum(machine.product(p, dtype) for p in work.products)
    flops = work.flops - sum(p.flops for p in work.products)
    moved = work.bytes - BYTES[dtype] * sum(p.numbers for p in work.products)
    rest = max(flops / machine.rate(dtype), moved / machine.read_write, 0)
    new = 1 / machine.fresh - 1 / machine.read_write
    return (
        products
        + rest
        + work.ops * machine.op
        + work.new * max(new, 0)
        + work.softmax * machine.softmax
    )


def persistent_bytes(parts):
    """Returns what lives as long as the model."""
    return sum(
        p.parameter_bytes + p.slot_bytes + p.constant_bytes for p in parts
    )


def peak_bytes(parts):
    """Returns the peak of making the model and of a step of it.

    Variables are made part by part, then slots. A step is walked through in its
    order: each forward adds what it saves; each backward, from the last part to
    the first, frees that and adds gradients. A variable is updated as soon as
    its gradient is there, while other gradients of the part are made;
    TensorFlow starts all updates that wait before it goes on with one, so that
    in the end their temporary tensors meet.
    """
    heap = _Heap()
    for part in parts:
        heap.add(part.parameter_bytes + part.constant_bytes, _ALWAYS)
        heap.note((part.making_bytes, part.parameter_bytes))
    for part in parts:
        heap.add(part.slot_bytes, _ALWAYS)
    for part in parts:
        heap.note((part.filling_bytes, part.parameter_bytes))
    for part in parts:
        heap.add(part.saved_bytes, part.tensor_bytes)
        heap.note((part.forward_bytes, part.tensor_bytes))
    for part in reversed(parts):
        heap.add(part.gradient_bytes, part.gradient_bytes)
        heap.note(
            (part.backward_bytes, part.tensor_bytes),
            (part.update_bytes, part.parameter_bytes),
        )
        heap.add(-part.saved_bytes, part.tensor_bytes)
    heap.note(*((part.update_bytes, part.parameter_bytes) for part in parts))
    return heap.peak


_ALWAYS = GIVEN_BACK  # what is never freed is counted with the large ones


class _Heap:
    """What there is, in large tensors and in small ones, and the peak."""

    def __init__(self):
        self._there = [0, 0]  # in small tensors, and in large ones
        self._most_small = self.peak = 0

    def add(self, num_bytes, tensor_bytes):
        """Adds tensors that stay; takes them away if `num_bytes` is below 0."""
        self._there[tensor_bytes >= GIVEN_BACK] += num_bytes

    def note(self, *moments):
        """Notes a moment with more: pairs of bytes, and bytes of a tensor."""
        now = self._there[:]
        for num_bytes, tensor_bytes in moments:
            now[tensor_bytes >= GIVEN_BACK] += num_bytes
        self._most_small = max(self._most_small, now[0])
        self.peak = max(self.peak, now[1] + self._most_small)
