"""What heads minimize, and its gradients, against all classes in float64."""

import numpy as np
import tensorflow as tf

from tests.support import inference_reference as reference
from tests.support import oracle
from tests.support.models import NUM_CLASSES, TREE, WIDTH, make_head
from tf_hsm.optimizers import SGD

FORMS = ["compile", "endpoint"]


def random_inputs(examples, seed=0):
    rng = np.random.default_rng(seed)
    return rng.normal(size=[examples, WIDTH])


def built_head(make=make_head, in_place=False, seed=1, **options):
    """A float64 head with random weights, whose own optimizer is SGD(1)."""
    optimizer = SGD(1.0) if in_place else None
    head = make(dtype="float64", optimizer=optimizer, **options)
    head.build([None, WIDTH])
    rng = np.random.default_rng(seed)
    for variable in head.weights:
        if variable.dtype == "float64":
            variable.assign(rng.normal(size=variable.shape))
    return head


def minimized(head, form, x, labels, sample_weight=None):
    """What one of the two forms minimizes, and its gradients dx, dw, db.

    For a head in place, dw and db are what its step with SGD(1) subtracts.
    """
    x = tf.constant(x)
    variables = [head.kernel, head.bias]
    before = [v.numpy() for v in variables]
    with tf.GradientTape() as tape:
        tape.watch(x)
        if form == "compile":
            total = head.loss(labels, head(x), sample_weight)
        else:
            head(x, labels, sample_weight)
            (total,) = head.losses
        # Keras' losses are float32.
        total = tf.cast(total, tf.float64)
    if head.optimizer is None:
        dx, *found = tape.gradient(total, [x, *(v.value for v in variables)])
        found = [tf.convert_to_tensor(gradient).numpy() for gradient in found]
    else:
        dx = tape.gradient(total, x)
        found = [b - v.numpy() for b, v in zip(before, variables, strict=True)]
    return total.numpy(), [dx.numpy(), *found]


def expected(head, x, function):
    """The same by brute force over the tree, in NumPy.

    `function` takes the log-probabilities `[B, N]` of all classes to the total
    and to its derivatives by them.
    """
    problem = oracle.Problem(
        x, None, head.kernel.numpy(), head.bias.numpy(), None
    )
    nodes, _ = reference.node_log_probs(TREE, problem)
    total, upstream = function(reference.by_class(TREE, nodes))
    upstream = reference.by_row(TREE, upstream)
    value, _ = reference.gradients(TREE, problem, upstream)
    return total, [value.dx, value.dw, value.db]


def one_hot(classes, weights):
    """Weights `[B, M]` of classes `[B, M]` as `[B, N]`; of -1 none."""
    full = np.zeros([len(classes), NUM_CLASSES])
    for row, its, of_each in zip(full, classes, weights, strict=True):
        np.add.at(row, its[its >= 0], of_each[its >= 0])
    return full


def assert_near(found, wanted, tolerance=1e-6):
    """Totals and gradients; Keras' means of losses are float32."""
    np.testing.assert_allclose(found[0], wanted[0], rtol=tolerance)
    for mine, its in zip(found[1], wanted[1], strict=True):
        np.testing.assert_allclose(mine, its, rtol=tolerance, atol=tolerance)
