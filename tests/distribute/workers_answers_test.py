"""A head over the workers of a cluster answers as one on one device does."""

import functools

import numpy as np
import pytest
import tensorflow as tf

from tests.support import private, workers
from tests.support import spread_heads as heads
from tests.support.training import assert_near

BATCH, NUM_SAMPLES = heads.BATCH, 4000
INPUTS = np.random.default_rng(1).normal(size=(BATCH, heads.WIDTH))
CLASSES = np.random.default_rng(2).integers(heads.N, size=(BATCH, 7))
# The first replica alone has a wrong class.
WRONG_CLASSES = np.where(np.arange(BATCH * 7) == 1, heads.N, CLASSES.flat)
WRONG_CLASSES = WRONG_CLASSES.reshape(CLASSES.shape)
NUMBERS = np.arange(heads.N, dtype=np.float64)
ALLOWED = {
    "one list": np.arange(3, heads.N, 4),
    "lists": np.random.default_rng(5).integers(heads.N, size=(BATCH, 9)),
}


def few_answers(head, inputs, classes, lists):
    """One answer of each exchange, and the gradient of the inputs.

    The graph of all answers on 4 replicas takes a minute on a busy machine.
    """
    with tf.GradientTape() as tape:
        tape.watch(inputs)
        log_probs = head.log_probs(inputs)
        total = tf.reduce_sum(tf.sin(log_probs))
    return [
        log_probs,
        tape.gradient(total, inputs),
        head.log_prob(classes, inputs),
        *head.top_k(inputs, 4, allowed=lists),
    ]


def answers(head, inputs, classes, lists):
    """All answers that have one value, and the gradient of the inputs."""
    one_input = tf.ones([1, inputs.shape[-1]], inputs.dtype)
    of_one = head.top_k(one_input, 4, allowed=ALLOWED["one list"]).log_probs
    return [
        *few_answers(head, inputs, classes, lists),
        tf.repeat(of_one, tf.shape(inputs)[0], 0),
        *head.top_k(inputs, heads.N),
        *head.top_k(
            inputs, 3, threshold=-3.0, beam_width=heads.N, return_pruned=True
        ),
        *head.top_k(inputs, 4, allowed=ALLOWED["one list"], renormalize=True),
        head.predict_class(inputs),
        head.sample(inputs, 3, seed=1, top_k=1),
    ]


def answers_on(devices):
    """The answers that are compared where each worker has so many devices."""
    return answers if devices == 1 else few_answers


def draws(head, inputs):
    """How often each class is drawn for each input, `[B, N]`."""
    drawn = head.sample(inputs, NUM_SAMPLES, seed=[3, 4], temperature=2.0)
    return tf.math.bincount(
        tf.cast(drawn, tf.int32), axis=-1, minlength=heads.N
    )


def gradient_of_top_k(head, inputs):
    """A gradient that no head has."""
    with tf.GradientTape() as tape:
        tape.watch(inputs)
        log_probs = head.top_k(inputs, 3).log_probs
    return tape.gradient(log_probs, inputs)


def asked(name, devices, start):
    """Asks a head over workers, in a worker with so many devices."""
    private.let_workers_have_cpus(devices)
    head = heads.make_head(name, "sgd", "workers")
    head.trainable = False
    heads.load_start(head, start)

    def on_replicas(function, *values):
        run = heads.runner(functools.partial(function, head), "workers")
        return tf.nest.flatten(run(*values))

    def log_prob(head, inputs, classes):
        return head.log_prob(classes, inputs)

    inputs = INPUTS
    ask = answers_on(devices)
    found = on_replicas(ask, inputs, CLASSES, ALLOWED["lists"])
    found += on_replicas(draws, inputs)
    if name == "pinned":
        return found, [], []
    questions = [
        lambda: head.top_k(inputs, 3),
        lambda: head.on_one_device().__enter__(),
        lambda: on_replicas(
            lambda h, x: h.top_k(x, 3 + tf.math.count_nonzero(x > 99)), inputs
        ),
        lambda: on_replicas(
            lambda h, x: h.top_k(x, 3, allowed=tf.reduce_sum(x) < NUMBERS),
            inputs,
        ),
        lambda: on_replicas(
            lambda h, x: tf.function(h.log_probs, autograph=False)(x), inputs
        ),
        lambda: on_replicas(gradient_of_top_k, inputs),
        lambda: on_replicas(log_prob, inputs, WRONG_CLASSES),
        lambda: on_replicas(lambda h, x: h.sample(x, 3, top_p=0.5), inputs),
    ]
    errors = [error_of(question) for question in questions]
    strategy = heads.strategy_of("workers")
    values = [heads.split(strategy, x) for x in (inputs, CLASSES)]
    traced = tf.function(
        lambda *x: strategy.run(functools.partial(log_prob, head), x),
        autograph=False,
    )
    graph = traced.get_concrete_function(*values).graph
    return found, errors, devices_before_assertions(graph)


def devices_before_assertions(graph):
    """For each assertion, how many devices have collectives before it."""
    found = []
    for op in graph.get_operations():
        if op.type != "Assert":
            continue
        todo, seen = [op], set()
        while todo:
            op = todo.pop()
            if op not in seen:
                seen.add(op)
                todo += [x.op for x in op.inputs] + op.control_inputs
        found.append(
            len({x.device for x in seen if x.type.startswith("Collective")})
        )
    return found


def error_of(function):
    """The text of the error that a function raises."""
    try:
        function()
    except (ValueError, LookupError, tf.errors.OpError) as error:
        return str(error)
    return "no error"


@pytest.mark.parametrize(
    "name, count, devices",
    [
        ("huffman", 2, 2),
        ("chain", 2, 1),
        ("pinned", 4, 1),
        ("three", 2, 1),
    ],
)
def test_as_on_one_device(name, count, devices, tmp_path):
    """Every answer, for other inputs on each replica, or for none."""
    one = heads.make_head(name, "sgd")
    rng = np.random.default_rng(0)
    for variable in one.row_variables():
        variable.assign(rng.normal(size=variable.shape))
    one.trainable = False
    inputs = tf.constant(INPUTS)
    ask = answers_on(devices)
    wanted = ask(one, inputs, CLASSES, ALLOWED["lists"])
    start = heads.start_for_workers(one, tmp_path)
    # At a temperature of 2.
    for variable in one.row_variables():
        variable.assign(variable.value / 2)
    probs = np.exp(one.log_probs(inputs))
    found = workers.run(asked, count, name, devices, start)
    results, errors, devices_before = zip(*found, strict=True)
    *joined, counts = map(np.concatenate, zip(*results, strict=True))
    assert_near(joined, wanted, 1e-12)
    # Five standard deviations.
    bound = 5 * np.sqrt((probs + 1e-3) / NUM_SAMPLES)
    np.testing.assert_array_less(np.abs(counts / NUM_SAMPLES - probs), bound)
    if name == "pinned":
        return
    # An error of one replica cancels the collectives of the others.
    for of_worker in devices_before:
        assert set(of_worker) - {0} == {devices}
    # The first worker may have all shards.
    outside, on_one_device, of_tensor, of_mask, *rest = errors[-1]
    inner, of_gradient, of_class, of_sum = rest
    assert "in the function that strategy.run takes" in outside
    assert "other workers have" in on_one_device
    assert "must be Python integers" in of_tensor
    assert "must be static" in of_mask
    if devices > 1:
        assert "within a tf.function" in inner
    else:
        assert inner == "no error"
    assert "only log_probs has a gradient" in of_gradient
    assert f"classes[1] = {heads.N} of replica 0" in of_class
    if name in heads.TREES:
        assert "top_p needs top_k" in of_sum
