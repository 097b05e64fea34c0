"""What one part of a model needs in a training step, and the step itself."""

import dataclasses
from collections.abc import Callable
from typing import Any, NamedTuple

BYTES = {"float16": 2, "bfloat16": 2, "float32": 4, "float64": 8}
# The types of the variables of a model: quantized layers have codes.
VARIABLE_BYTES = {**BYTES, "int8": 1, "uint8": 1}


@dataclasses.dataclass(frozen=True)
class Setting:
    """What every part of a model must know of the step.

    Attributes:
      batch: sequences, or examples, in a step.
      length: the length of a sequence; 1 for examples without one.
      dtype: of the variables: "float32", "bfloat16", ...
      compute_dtype: of the activations: another one under a mixed policy.
      slots: what the optimizer of the model needs, a `Slots`.
      labels_per_example: the mean number of labels that an example has.
    """

    batch: int
    length: int
    dtype: str
    compute_dtype: str
    slots: Any
    labels_per_example: float = 1.0

    @property
    def tokens(self):
        """Labels in a step: B of the formulas of a head."""
        return self.batch * self.length

    @property
    def itemsize(self):
        """Bytes of a number of a variable."""
        return BYTES[self.dtype]

    @property
    def accumulator_itemsize(self):
        """Bytes of a number of losses, of dx and of probabilities."""
        return max(self.itemsize, 4)

    @property
    def compute_itemsize(self):
        """Bytes of a number of an activation."""
        return BYTES[self.compute_dtype]

    def of_examples(self, count):
        """Returns the setting of so many examples without a length."""
        return dataclasses.replace(self, batch=count, length=1)

    def share(self, share):
        """Returns the setting of a share of all labels, at least of one."""
        return self.of_examples(max(round(self.tokens * share), 1))


class Product(NamedTuple):
    """Matrix products `[m, k] x [k, n]`, one after the other.

    Attributes:
      m: rows of the first factor.
      n: columns of the second.
      k: what is summed over.
      count: how many.
      transposed: whether the second factor lies in memory as `[n, k]`, as the
        weights do in the product that makes the gradient of the inputs.
    """

    m: float
    n: float
    k: float
    count: float = 1
    transposed: bool = False

    @property
    def flops(self):
        """2 for each multiplication with its addition."""
        return 2 * self.m * self.n * self.k * self.count

    @property
    def numbers(self):
        """Numbers that are moved, each once for each product."""
        m, n, k = self[:3]
        return self.count * (m * k + k * n + m * n)


class Work(NamedTuple):
    """What a pass over a part does.

    Attributes:
      flops: 2 for each multiplication with its addition, 1 for any other
        operation on a number.
      bytes: read from memory and written there, each number once for each use.
      ops: kernels that run one after the other, each of which takes a moment to
        be started.
      new: bytes written in memory that the process did not have before.
      softmax: numbers that pass through a softmax, whose exponentials take
        longer than other operations.
      products: the matrix products among the FLOPs, where their shapes tell
        how fast they are.
    """

    flops: float = 0.0
    bytes: float = 0.0
    ops: float = 0.0
    new: float = 0.0
    softmax: float = 0.0
    products: tuple[Product, ...] = ()

    def __add__(self, other):
        """Returns both, one after the other."""
        return Work(*(a + b for a, b in zip(self, other, strict=True)))

    def times(self, count):
        """Returns the work of so many such passes."""
        *numbers, products = self
        products = (p._replace(count=count * p.count) for p in products)
        return Work(*(count * value for value in numbers), tuple(products))


NO_WORK = Work()


def product(m, n, k, size, count=1, more=NO_WORK):
    """Returns the `Work` of products `[m, k] x [k, n]` forward, and backward.

    The `Work` in `more` is beside them, once forward and twice backward.
    """

    def work(*products):
        return Work(
            sum(p.flops for p in products),
            size * sum(p.numbers for p in products),
            count * len(products),
            products=products,
        )

    forward = work(Product(m, n, k, count))
    backward = work(
        Product(m, k, n, count, transposed=True), Product(k, n, m, count)
    )
    return forward + more, backward + more.times(2)


def elementwise(numbers, size, flops=1, passes=2, ops=1):
    """Returns the `Work` of so many FLOPs and passes over numbers."""
    return Work(flops * numbers, passes * size * numbers, ops)


@dataclasses.dataclass(frozen=True)
class Part:
    """A row of an estimate: a layer, or what stands for one.

    A step runs the parts in their order, then backward, then the optimizer.
    Bytes are of tensors, on one device.

    Attributes:
      name: of the layer.
      kind: of the layer, as "LSTM".
      parameters: numbers in all its variables.
      parameter_bytes: of these.
      gradient_bytes: of the gradients by its variables, which live from its
        backward until the optimizer is done.
      summed_bytes: of what replicas exchange to sum all rows of its gradient,
        if they may do so; else 0.
      slot_bytes: of what the optimizer has for its variables.
      constant_bytes: what else lives as long as the model, such as the arrays
        of a tree.
      saved_bytes: made by its forward, and kept for its backward.
      forward_bytes: the most that its forward has beside what it saves.
      backward_bytes: the most that its backward has beside what was saved and
        the gradients by its variables.
      update_bytes: the most that the optimizer has beside gradients and slots.
      tensor_bytes: of a typical tensor among those that are saved, or there
        for a moment in forward and backward; 0 for small ones.
      making_bytes: the most that making its variables has beside them, and
        beside the variables of the parts before.
      filling_bytes: the most that making its slots has beside all of the model.
      forward: the `Work` of a forward.
      backward: the `Work` of a backward.
      update: the `Work` of the optimizer.
      seconds: given a `Machine`, what forward and backward take together where
        their `Work` does not tell; else None.
      touched: for each trained variable, the rows of its sparse gradient; None,
        or nothing, for a dense gradient.
      in_place: whether its backward updates its variables itself, and stores no
        gradient.
      can_train: whether its model can train; False for quantized heads.
      uncounted: names of what is not counted here, with a reason.
    """

    name: str = ""
    kind: str = ""
    parameters: int = 0
    parameter_bytes: int = 0
    gradient_bytes: float = 0
    summed_bytes: float = 0
    slot_bytes: int = 0
    constant_bytes: int = 0
    saved_bytes: float = 0
    forward_bytes: float = 0
    backward_bytes: float = 0
    update_bytes: float = 0
    tensor_bytes: float = 0
    making_bytes: float = 0
    filling_bytes: float = 0
    forward: Work = NO_WORK
    backward: Work = NO_WORK
    update: Work = NO_WORK
    seconds: Callable[[Any], float] | None = None
    touched: tuple[float | None, ...] = ()
    in_place: bool = False
    can_train: bool = True
    uncounted: tuple[str, ...] = ()

    @property
    def is_sparse(self):
        """Whether a gradient has touched rows alone."""
        return any(rows is not None for rows in self.touched)

    def named(self, name):
        """Returns the same part by another name."""
        return dataclasses.replace(self, name=name)

    def again(self):
        """Returns the part of another call, whose variables are counted."""
        of_variables = (
            *("parameters", "parameter_bytes", "gradient_bytes", "slot_bytes"),
            *("constant_bytes", "update_bytes", "making_bytes"),
            *("filling_bytes", "summed_bytes"),
        )
        zeros = dict.fromkeys(of_variables, 0)
        return dataclasses.replace(self, **zeros, update=NO_WORK)

    def untrained(self):
        """Returns the part in a forward without a backward."""
        return dataclasses.replace(
            self,
            gradient_bytes=0,
            saved_bytes=0,
            # It is there for a while.
            forward_bytes=self.forward_bytes + self.saved_bytes,
            backward_bytes=0,
            backward=NO_WORK,
        )
