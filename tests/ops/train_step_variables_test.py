"""The step in place on variables that others read, hold and write."""

from concurrent import futures

import numpy as np
import pytest
import tensorflow as tf

import tf_hsm
from tests.support import training
from tests.support.update_rules import built
from tf_hsm import hierarchical_softmax_loss as loss_function
from tf_hsm import hierarchical_softmax_train_step as train_step
from tf_hsm.runtime.variables import variable_of

TREE = tf_hsm.Tree.two_level(60)
WIDTH = 16
PROBLEM = training.wide_problem(TREE, (40, WIDTH))
ARGUMENTS = PROBLEM.labels, PROBLEM.inputs, TREE


def all_variables(variables, optimizer):
    """The variables and their slots."""
    slots = [slot for v in variables for slot in optimizer.slots(v)]
    return [variable_of(v) for v in (*variables, *slots)]


def set_copy_on_read(variables):
    """What the first sparse update of a variable does to it."""
    for v in variables:
        v.scatter_sub(tf.IndexedSlices(tf.zeros([1, *v.shape[1:]]), [0]))


READS = {
    "read_value": lambda v: v.read_value(),
    "value": lambda v: v.value(),
    "convert": tf.convert_to_tensor,
    "identity": tf.identity,
    "numpy_view": lambda v: np.asarray(memoryview(v.read_value())),
    "dlpack": lambda v: np.from_dlpack(v.read_value()),
}


@pytest.mark.parametrize("copy_on_read", ["before", "between", "never"])
@pytest.mark.parametrize("read", READS)
def test_a_value_that_was_read_stays(read, copy_on_read):
    """A step does not change earlier reads of weights, biases and slots."""
    variables = training.variables_of(PROBLEM)
    optimizer = built("lazy_adam", variables)
    training.in_place(variables, PROBLEM, TREE, optimizer)
    written = all_variables(variables, optimizer)
    if copy_on_read == "before":
        set_copy_on_read(written)
    values = [READS[read](v) for v in written]
    if copy_on_read == "between":
        set_copy_on_read(written)
    copies = [np.array(value) for value in values]
    training.in_place(variables, PROBLEM, TREE, optimizer)
    training.assert_same(values, copies)
    for v, old in zip(written, copies, strict=True):
        assert (v.numpy() != old).any()
    # The copy that was made is the variable's own, and updated from then on.
    last = [v.numpy() for v in written]
    training.in_place(variables, PROBLEM, TREE, optimizer)
    training.assert_same(values, copies)
    for v, old in zip(written, last, strict=True):
        assert (v.numpy() != old).any()


def aligned(array):
    """A copy at an address that TensorFlow takes as it is."""
    memory = np.zeros(array.nbytes + 64, np.uint8)
    start = -memory.ctypes.data % 64
    memory = memory[start : start + array.nbytes]
    copy = memory.view(array.dtype).reshape(array.shape)
    copy[:] = array
    return copy


@pytest.mark.parametrize("assigned", [False, True])
@pytest.mark.parametrize("source", ["tensor", "variable", "array", "dlpack"])
def test_what_a_variable_was_made_of_stays(source, assigned):
    """A variable may share the memory of the value that it was given."""
    array = aligned(PROBLEM.weights)
    value = {
        "tensor": lambda: tf.constant(array),
        "variable": lambda: tf.Variable(array),
        "array": lambda: array,
        "dlpack": lambda: tf.experimental.dlpack.from_dlpack(
            array.__dlpack__()
        ),
    }[source]()
    if assigned:
        w = tf.Variable(tf.zeros_like(array))
        w.assign(value)
    else:
        w = tf.Variable(value)
    optimizer = built("sgd", [w])
    for _ in range(2):
        before = w.numpy()
        train_step(w, None, *ARGUMENTS, optimizer)
        assert (w.numpy() != before).any()
    training.assert_same(value, PROBLEM.weights)
    training.assert_same(array, PROBLEM.weights)


def test_two_steps_in_one_function():
    """In program order, between reads, losses and writes of the variables."""

    def run(w, b, optimizer):
        outputs = [w.read_value(), loss_function(w, b, *ARGUMENTS)]
        outputs.append(train_step(w, b, *ARGUMENTS, optimizer))
        outputs += [tf.identity(w), b.read_value()]
        outputs.append(loss_function(w, b, *ARGUMENTS))
        outputs.append(train_step(w, b, *ARGUMENTS, optimizer))
        outputs.append(tf.gather(w, [0, 5]))
        w.assign(0.5 * w)
        outputs.append(train_step(w, b, *ARGUMENTS, optimizer))
        outputs += [w.read_value(), loss_function(w, b, *ARGUMENTS)]
        return outputs

    results = []
    for wrap in (lambda f: f, tf.function):
        variables = training.variables_of(PROBLEM)
        optimizer = built("lazy_adam", variables)
        bound = wrap(lambda v=variables, o=optimizer: run(*v, o))
        results.append([bound() for _ in range(10)])
        assert int(optimizer.iterations) == 30
    training.assert_same(*results)
    first = results[0][0]
    training.assert_same(first[0], PROBLEM.weights)
    training.assert_same(first[1], first[2])
    assert np.mean(first[5]) < np.mean(first[2])


def test_in_control_flow():
    """In a loop and under a condition; nobody needs to take the losses."""
    variables, others = (training.variables_of(PROBLEM) for _ in range(2))
    optimizer = built("adagrad", variables)

    @tf.function
    def run(steps, wanted):
        for _ in tf.range(steps):
            if wanted:
                train_step(*variables, *ARGUMENTS, optimizer)

    run(tf.constant(5), tf.constant(False))
    training.assert_same(variables, others)
    run(tf.constant(3), tf.constant(True))
    other_optimizer = built("adagrad", others)
    for _ in range(3):
        train_step(*others, *ARGUMENTS, other_optimizer)
    training.assert_same(variables, others)
    assert int(optimizer.iterations) == 3


def run_threads(tasks):
    """Runs each task in a thread; raises the first error, or if one hangs."""
    pool = futures.ThreadPoolExecutor(len(tasks))
    for running in [pool.submit(task) for task in tasks]:
        running.result(timeout=60)
    pool.shutdown()


@pytest.mark.parametrize("biases_first", [False, True])
def test_threads_on_one_variable(biases_first):
    """Steps, losses, reads and writes at once: no deadlock, no torn read."""
    # Locks are taken by address, which mostly follows that of creation.
    arrays = [PROBLEM.weights, PROBLEM.biases]
    w, b = map(tf.Variable, arrays)
    if biases_first:
        b, w = map(tf.Variable, arrays[::-1])
    optimizers = [built(rule, [w, b]) for rule in ("lazy_adam", "sgd")]
    before = np.mean(loss_function(w, b, *ARGUMENTS))

    def stepping(optimizer):
        step = tf.function(lambda: train_step(w, b, *ARGUMENTS, optimizer))
        for _ in range(100):
            step()

    def losing():
        for _ in range(50):
            with tf.GradientTape() as tape:
                losses = loss_function(w, b, *ARGUMENTS)
            tape.gradient(losses, [w, b])

    def reading():
        for _ in range(100):
            values = w.read_value(), b.read_value()
            copies = [v.numpy().copy() for v in values]
            loss_function(w, b, *ARGUMENTS)
            training.assert_same(values, copies)

    def writing():
        for _ in range(50):
            w.assign(0.999 * w)
            b.scatter_sub(tf.IndexedSlices(tf.zeros([1]), [3]))

    run_threads(
        [
            *(lambda o=o: stepping(o) for o in optimizers),
            *(lambda: stepping(optimizers[1]), losing, reading, writing),
        ]
    )
    assert np.mean(loss_function(w, b, *ARGUMENTS)) < before
    assert [int(o.iterations) for o in optimizers] == [100, 200]


def test_steps_of_threads_do_not_mix():
    """Two at once have the effect of one after the other, in either order."""
    other = PROBLEM.replace(labels=(PROBLEM.labels + 7) % TREE.num_classes)

    def fresh():
        variables = training.variables_of(PROBLEM)
        return variables, built("adagrad", variables)

    def stepping(variables, optimizer, problem):
        return lambda: training.in_place(variables, problem, TREE, optimizer)

    outcomes = []
    for order in ([PROBLEM, other], [other, PROBLEM]):
        variables, optimizer = fresh()
        for problem in order:
            stepping(variables, optimizer, problem)()
        outcomes.append(training.states(optimizer, variables))
    for _ in range(20):
        variables, optimizer = fresh()
        run_threads(
            [stepping(variables, optimizer, p) for p in (PROBLEM, other)]
        )
        result = tf.nest.flatten(training.states(optimizer, variables))
        assert any(
            all(map(np.array_equal, result, tf.nest.flatten(outcome)))
            for outcome in outcomes
        )
