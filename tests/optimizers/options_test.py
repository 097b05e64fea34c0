"""What Keras' base class does around a rule, for sparse gradients."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from tests.support.update_rules import OURS
from tf_hsm import optimizers

N, WIDTH = 1009, 3
ROWS = np.array([5, 2, 5, 7, 2, 5])
VALUES = np.random.default_rng(0).normal(size=(6, WIDTH)).astype(np.float32)
CLIPS = [{"clipnorm": 0.5}, {"global_clipnorm": 0.5}, {"clipvalue": 0.7}]

RULES = (
    *("sgd", "nesterov", "adagrad", "rowwise_adagrad", "amsgrad", "lion"),
    "rmsprop_centered_momentum",
)
every_optimizer = pytest.mark.parametrize(
    "make", [OURS[rule] for rule in RULES], ids=RULES
)


def table(dtype="float32", name=None, **options):
    values = np.random.default_rng(1).normal(size=(N, WIDTH))
    return keras.Variable(values, dtype=dtype, name=name, **options)


def sparse(scale=1.0, dtype=np.float32):
    return tf.IndexedSlices(
        tf.constant((VALUES * scale).astype(dtype)),
        tf.constant(ROWS),
        tf.constant([N, WIDTH]),
    )


def dense(scale=1.0):
    gradient = np.zeros([N, WIDTH], np.float32)
    np.add.at(gradient, ROWS, VALUES * np.float32(scale))
    return tf.constant(gradient)


@pytest.mark.parametrize("clip", CLIPS)
def test_clipping_sees_the_dense_equivalent(clip):
    """The rows that repeat count once; global norms go over all variables."""
    gradients = {
        "ours": [sparse(), tf.constant([3.0, -4.0]), sparse(0.1)],
        "keras": [dense(), tf.constant([3.0, -4.0]), dense(0.1)],
    }
    results = {}
    for whose, make in (
        ("ours", optimizers.SGD),
        ("keras", keras.optimizers.SGD),
    ):
        variables = [table(), keras.Variable([1.0, 1.0]), table()]
        make(1.0, **clip).apply(gradients[whose], variables)
        results[whose] = [v.numpy() for v in variables]
    for mine, its in zip(results["ours"], results["keras"], strict=True):
        np.testing.assert_allclose(mine, its, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("clip", CLIPS[:2])
def test_norms_of_float16_do_not_overflow(clip):
    """The square of 300 does; the clipped gradient is exact."""
    for gradient in (sparse(300, np.float16), tf.cast(dense(300), "float16")):
        variable = keras.Variable(np.zeros([N, WIDTH]), dtype="float16")
        optimizers.SGD(1.0, **clip).apply([gradient], [variable])
        norm = np.linalg.norm(variable.numpy().astype(np.float64))
        np.testing.assert_allclose(norm, 0.5, rtol=1e-3)


@every_optimizer
def test_weight_decay_of_touched_rows(make):
    """It is that of Keras on them; a dense gradient touches all rows."""
    for gradient, rows in ((sparse(), np.unique(ROWS)), (dense(), range(N))):
        with_decay, without = table(), table()
        start = with_decay.numpy()
        make(weight_decay=0.25).apply([gradient], [with_decay])
        make().apply([gradient], [without])
        decayed = np.zeros([N, WIDTH])
        decayed[rows] = 0.1 * 0.25 * start[rows]
        np.testing.assert_allclose(
            without.numpy() - with_decay.numpy(), decayed, atol=1e-6
        )


REFUSED = [
    ({"use_ema": True}, {}, "use_ema"),
    ({"gradient_accumulation_steps": 2}, {}, "gradient_accumulation_steps"),
    (
        {},
        {"constraint": keras.constraints.MaxNorm(1.0, axis=0)},
        r"a constraint of rows together \(.* axis=1\)",
    ),
]


@every_optimizer
@pytest.mark.parametrize("options, of_variable, name", REFUSED)
def test_what_needs_all_rows_is_refused(make, options, of_variable, name):
    """In the first step, before anything changes."""
    layer = keras.layers.Layer()
    variable = layer.add_weight(shape=[N, WIDTH], name="table", **of_variable)
    start = variable.numpy()
    optimizer = make(**options)
    match = f"{name} is not possible for table.*1,009 rows"
    with pytest.raises(ValueError, match=match):
        optimizer.apply([sparse()], [variable])
    with pytest.raises(ValueError, match=match):
        tf.function(lambda: optimizer.apply([sparse()], [variable]))()
    np.testing.assert_array_equal(variable.numpy(), start)
    assert optimizer.iterations == 0


class Eighths(keras.constraints.Constraint):
    def __call__(self, w):
        return tf.round(8 * w) / 8


CONSTRAINTS = [
    keras.constraints.NonNeg(),
    keras.constraints.MaxNorm(1.5, axis=1),
    Eighths(),
]


@pytest.mark.parametrize(
    "make, constraint",
    [(OURS[rule], constraint) for rule in RULES for constraint in CONSTRAINTS],
)
def test_constraints_are_applied_to_touched_rows(make, constraint):
    """After each step, once to rows that repeat; to dense gradients as ever."""
    layer = keras.layers.Layer()
    mine = layer.add_weight(shape=[N, WIDTH], constraint=constraint)
    other = layer.add_weight(shape=[N, WIDTH], constraint=constraint)
    plain, dense_plain = table(), table()
    mine.assign(plain)
    other.assign(dense_plain)
    ours, its = make(), make()
    ours.build([mine, other])
    its.build([plain, dense_plain])
    # In a graph, from where the variables are no arguments.
    apply = tf.function(lambda *gradients: ours.apply(gradients))
    for scale in (1.0, -3.0):
        apply(sparse(scale), dense(scale))
        its.apply([sparse(scale), dense(scale)], [plain, dense_plain])
        values = plain.numpy()
        values[ROWS] = constraint(tf.constant(values[ROWS]))
        plain.assign(values)
        dense_plain.assign(constraint(dense_plain.value))
        np.testing.assert_allclose(mine, plain, rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(other, dense_plain, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("options, of_variable, name", REFUSED)
def test_with_dense_gradients_it_is_as_in_keras(
    dtype, options, of_variable, name
):
    """Bit for bit; bfloat16 to rounding, as Keras in float32.

    Keras' Adam in bfloat16 never forgets: 0.999 is rounded to 1.
    """
    start = np.random.default_rng(1).normal(size=[N, WIDTH]).astype("bfloat16")
    results = []
    for optimizer, of_type in (
        (optimizers.LazyAdam(0.125, **options), dtype),
        (keras.optimizers.Adam(0.125, **options), "float32"),
    ):
        variable = keras.layers.Layer().add_weight(
            shape=[N, WIDTH],
            dtype=of_type,
            initializer=lambda *_, **k: tf.constant(start, k["dtype"]),
            **of_variable,
        )
        for scale in (1, 2, 3, 4):
            gradient = tf.cast(tf.cast(dense(scale), dtype), of_type)
            optimizer.apply([gradient], [variable])
        optimizer.finalize_variable_values([variable])
        results.append(tf.cast(variable.value, tf.float32).numpy())
    tolerance = 0 if dtype == "float32" else 2**-6
    np.testing.assert_allclose(*results, rtol=tolerance, atol=tolerance)


@every_optimizer
@pytest.mark.parametrize("gradient", [sparse, dense])
def test_loss_scale_factor(make, gradient):
    scaled, plain = table(), table()
    optimizer = make(loss_scale_factor=64.0, global_clipnorm=0.5)
    assert optimizer.scale_loss(2.0) == 128.0
    for scale in (1, 2):
        optimizer.apply([gradient(64 * scale)], [scaled])
    optimizer = make(global_clipnorm=0.5)
    for scale in (1, 2):
        optimizer.apply([gradient(scale)], [plain])
    np.testing.assert_array_equal(scaled.numpy(), plain.numpy())


@every_optimizer
def test_dynamic_loss_scale(make):
    """A step with an infinity changes the scale, nothing else."""
    scaled, plain = table(), table()
    optimizer = optimizers.LossScaleOptimizer(
        make(), initial_scale=64.0, dynamic_growth_steps=2
    )
    optimizer.build([scaled])
    apply = tf.function(lambda gradient: optimizer.apply([gradient], [scaled]))
    inner = make()
    inner.build([plain])
    apply_plain = tf.function(lambda gradient: inner.apply([gradient], [plain]))
    for scale in (1, 2):
        apply(sparse(64 * scale))
        apply_plain(sparse(scale))
    np.testing.assert_array_equal(scaled.numpy(), plain.numpy())
    assert optimizer.dynamic_scale == 128
    before = [v.numpy() for v in optimizer.inner_optimizer.variables]
    for bad in (np.inf, np.nan):
        apply(sparse(bad))
    assert optimizer.dynamic_scale == 32
    np.testing.assert_array_equal(scaled.numpy(), plain.numpy())
    for v, b in zip(optimizer.inner_optimizer.variables, before, strict=True):
        np.testing.assert_array_equal(v.numpy(), b)


def as_large_as(shape, graph):
    """The operations that make a tensor of this shape."""
    graphs = [graph]
    found = []
    while graphs:
        graph = graphs.pop()
        for operation in graph.get_operations():
            found += [
                operation.type
                for output in operation.outputs
                if output.shape.rank and tuple(output.shape) == shape
            ]
        graphs += [f.graph for f in graph._functions.values()]
    return found


def step_graph(optimizer, gradient):
    variable = table()
    optimizer.build([variable])
    step = tf.function(
        lambda values, rows: optimizer.apply(
            [gradient(values, rows)], [variable]
        )
    )
    return step.get_concrete_function(
        tf.TensorSpec([None, WIDTH]), tf.TensorSpec([None], tf.int64)
    ).graph


def as_slices(values, rows):
    return tf.IndexedSlices(values, rows, tf.constant([N, WIDTH], tf.int64))


@pytest.mark.parametrize(
    "make, options",
    [(OURS[rule], {}) for rule in RULES]
    + [(lambda **_: optimizers.LossScaleOptimizer(OURS["adagrad"]()), {})]
    # What the options do comes before the rule, whichever it is.
    + [
        (OURS[rule], options)
        for rule in ("adagrad", "amsgrad")
        for options in (*CLIPS, {"loss_scale_factor": 2.0})
    ],
)
def test_a_step_makes_nothing_as_large_as_the_table(make, options):
    optimizer = make(weight_decay=0.1, **options)
    assert not as_large_as((N, WIDTH), step_graph(optimizer, as_slices))


def test_what_is_as_large_as_the_table_would_be_found():
    def densified(values, rows):
        return tf.convert_to_tensor(as_slices(values, rows))

    assert as_large_as((N, WIDTH), step_graph(optimizers.SGD(0.1), densified))
    stock = keras.optimizers.Adagrad(0.1)
    assert as_large_as((N, WIDTH), step_graph(stock, as_slices))
    stock = keras.optimizers.LossScaleOptimizer(optimizers.SGD(0.1))
    assert "Fill" in as_large_as((N, WIDTH), step_graph(stock, as_slices))
