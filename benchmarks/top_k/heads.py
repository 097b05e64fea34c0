"""The heads that are asked, and the inputs that they are asked about.

A source says what to make, in a process of its own; `trained_head` has one
more. Rows and inputs are those of a `workloads.Case`:

    flat    weights uniform in [0, 1), normal inputs: within a group, logits
            have a standard deviation of 0.3, and no class stands out
    peaked  the same weights, inputs that point to a class (`peaked_inputs`);
            classes are drawn like the labels of the workload
"""

import dataclasses
from typing import NamedTuple

import tensorflow as tf

import tf_hsm
from benchmarks.common import implementations, workloads
from benchmarks.top_k import peaked_inputs

DISTRIBUTIONS = ("flat", "peaked")


class Head(NamedTuple):
    """A head and inputs `[n, D]`; has `sizes` and `dtype`, as a `Case` has."""

    tree: tf_hsm.Tree
    parameters: implementations.Parameters
    inputs: tf.Tensor
    sizes: workloads.Workload
    dtype: str


class RandomSource(NamedTuple):
    """A head of random weights."""

    case: workloads.Case
    distribution: str
    peak: peaked_inputs.Peak

    @property
    def is_peaked(self):
        """Whether the inputs point to classes."""
        return self.distribution == "peaked"

    def __str__(self):
        """Names the head."""
        case, inputs = self.case, f"{self.distribution} inputs"
        if self.is_peaked:
            inputs += f" (P={self.peak.probability:g}, noise "
            inputs += f"{self.peak.noise:g})"
        return f"{case.workload}, {case.tree} tree, {inputs}, {case.dtype}"

    def description(self):
        """What the JSON file says of it."""
        return {
            "workload": self.case.workload,
            "tree_name": self.case.tree,
            "distribution": self.distribution,
            "peak": self.peak._asdict(),
            "dtype": self.case.dtype,
        }

    def make(self, num_inputs, limits):
        """Returns (`Head`, None), or (None, why it is refused)."""
        tree = workloads.make_tree(self.case)
        num_bytes = implementations.parameter_bytes(tree.num_rows, self.case)
        refusal = limits.refusal(0, num_bytes, 0)
        if refusal:
            return None, refusal
        limits.take(num_bytes)
        parameters = implementations.make_parameters(tree.num_rows, self.case)
        # All inputs are one batch, with a label for each.
        case = dataclasses.replace(self.case, batch=num_inputs)
        if self.is_peaked:
            (labels,) = workloads.draw_labels(case, 1)
            inputs = peaked_inputs.make(
                tree, labels, parameters.weights, self.peak
            )
            inputs = tf.constant(inputs, case.dtype)
        else:
            inputs = implementations.make_inputs(case)
        return Head(tree, parameters, inputs, case.sizes, case.dtype), None
