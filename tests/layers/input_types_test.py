"""Hidden vectors and labels of wrong types are refused in a sentence."""

import functools

import keras
import numpy as np
import pytest
import tensorflow as tf

import tf_hsm
from tests.support import heads_by_name
from tests.support.heads_by_name import BATCH, TREE, WIDTH
from tests.support.training import assert_same, layer_step
from tf_hsm import metrics

NAMES = [n for n in heads_by_name.NAMES if n != "EmbeddingSoftmax"]
WRONG = {
    "int32": tf.ones([BATCH, WIDTH], tf.int32),
    "uint8": np.ones([BATCH, WIDTH], np.uint8),
    "bool": tf.ones([BATCH, WIDTH], tf.bool),
    "complex64": tf.ones([BATCH, WIDTH], tf.complex64),
    "string": tf.fill([BATCH, WIDTH], "a"),
}
CALLS = {
    "call": lambda head, x: head(x),
    "losses": lambda head, x: head(x, heads_by_name.labels(kind(head))),
    "loss": lambda head, x: head.loss(heads_by_name.labels(kind(head)), x),
    "top_k": lambda head, x: head.top_k(x, 2),
    "log_prob": lambda head, x: head.log_prob([[0]] * BATCH, x),
    "log_probs": lambda head, x: head.log_probs(x),
    "sample": lambda head, x: head.sample(x, 2, seed=1),
}


def kind(head):
    return type(head).__name__


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("name", [*NAMES, "devices"])
def test_layers(name, call):
    """Token ids would be cast to the weights' type."""
    if name == "LabelTree" and call == "sample":
        pytest.skip("a label tree draws nothing")
    options = {}
    if name == "devices":
        name, options = "HierarchicalSoftmax", {"devices": ["CPU:0"] * 2}
    head = heads_by_name.built(name, **options)
    for dtype, inputs in WRONG.items():
        with pytest.raises(
            TypeError, match=f"inputs must be floats, but are {dtype}"
        ):
            CALLS[call](head, inputs)
    floats = tf.ones([BATCH, WIDTH], tf.float16)
    CALLS[call](head, tf.cast(floats, tf.float32))


@pytest.mark.parametrize("name", heads_by_name.NAMES)
def test_labels(name):
    """Strings, floats and too few labels, of losses and of metrics."""
    head, x = heads_by_name.built(name), heads_by_name.inputs(name)
    output, labels = head(x), heads_by_name.labels(name)
    metric = metrics.MeanReciprocalRank(head)
    for call in (
        lambda y: head(x, y),
        lambda y: head.loss(y, output),
        lambda y: metric.update_state(y, output),
    ):
        for dtype, kind in (("U3", "string"), ("f4", "float32")):
            with pytest.raises(TypeError, match=f"labels must be .*are {kind}"):
                call(labels.astype(dtype))
        with pytest.raises(ValueError, match="labels, of shape"):
            call(labels[1:])


@pytest.mark.parametrize(
    "kind, own",
    [
        ("eager", True),
        ("function", False),
        ("function", True),
        ("fit", False),
        ("fit", True),
    ],
)
@pytest.mark.parametrize("name", heads_by_name.NAMES)
def test_a_bad_label_moves_nothing(name, kind, own):
    """The error names the position, the value and the range."""
    own = own and name != "SampledSoftmax"
    options = {"optimizer": "lazy_adam"} if own else {}
    head = heads_by_name.built(name, **options)
    x, labels = heads_by_name.inputs(name), np.abs(heads_by_name.labels(name))
    inputs = keras.Input(x.shape[1:], dtype=x.dtype.name)
    model = keras.Sequential([inputs, head])
    model.compile("sgd", head.loss)
    specs = [
        tf.TensorSpec([None, *x.shape[1:]], x.dtype),
        tf.TensorSpec([None, *labels.shape[1:]], tf.int64),
    ]
    step = functools.partial(layer_step, head)
    slots = head.optimizer.variables if own else []
    variables = [*head.row_variables(), *slots]
    call = {
        "eager": functools.partial(step, inputs_mask=np.full(BATCH, True)),
        "function": tf.function(step, input_signature=specs),
        "fit": functools.partial(model.fit, shuffle=False, verbose=0),
    }[kind]
    before = [v.numpy() for v in variables]
    for wrong in (30, 2**40) if name == "LabelTree" else (-1, 30, 2**40):
        bad = labels.copy()
        bad[7] = wrong
        position = 7 * labels[0].size
        words = rf"labels\[{position}\] = {wrong} is outside \[0, 30\)"
        with pytest.raises(tf.errors.InvalidArgumentError, match=words):
            call(x, bad)
    if kind == "function" and name != "SampledSoftmax":
        for bad in (labels[1:], np.concatenate([labels, labels[:1]])):
            with pytest.raises(tf.errors.InvalidArgumentError, match="labels"):
                call(x, bad)
    assert_same([v.numpy() for v in variables], before)
    call(x, labels)
    assert not own or int(head.optimizer.iterations) == 1


@pytest.mark.parametrize("name", heads_by_name.NAMES)
def test_unsigned_labels(name):
    """Unsigned labels count as in int64; none is an `ignore_class` of -1."""
    head, x = heads_by_name.built(name), heads_by_name.inputs(name)
    head.objective.ignore_class = -1
    labels, output = np.abs(heads_by_name.labels(name)), head(x)
    metric = metrics.MeanReciprocalRank(head)

    def results(labels):
        metric.reset_state()
        metric.update_state(labels, output)
        return head(x, labels), head.loss(labels, output), metric.result()

    for dtype in ("uint64", "uint32", "uint8"):
        assert_same(results(labels.astype(dtype)), results(labels))
    past_int64 = np.full(labels.shape, 2**64 - 1, "uint64")
    for call in (lambda y: head(x, y), lambda y: head.loss(y, output)):
        with pytest.raises(tf.errors.InvalidArgumentError, match="labels"):
            call(past_int64)


@pytest.mark.parametrize("name", heads_by_name.NAMES)
def test_answers_without_weights(name):
    head, x = heads_by_name.make(name), heads_by_name.inputs(name)
    words = f"{head.name} has no weights yet"
    for call in ("top_k", "log_prob", "log_probs", "sample"):
        if (name, call) != ("LabelTree", "sample"):
            with pytest.raises(ValueError, match=words):
                CALLS[call](head, x)


def test_lists_and_steps():
    """Lists of integers are ids too; a list of floats is a vector."""
    weights = tf.Variable(tf.ones([TREE.num_rows, 2]))
    loss = tf_hsm.hierarchical_softmax_loss
    np.testing.assert_array_equal(
        loss(weights, None, [3], [[1, 0.5]], TREE),
        loss(weights, None, [3], tf.constant([[1, 0.5]]), TREE),
    )
    optimizer = tf_hsm.optimizers.SGD(0.1)
    optimizer.build([weights])
    for inputs in ([[1, 2]], [[True, False]], [[np.int64(1), 2]]):
        with pytest.raises(TypeError, match="inputs must be floats"):
            loss(weights, None, [3], inputs, TREE)
        for step in (
            tf_hsm.hierarchical_softmax_train_step,
            tf_hsm.label_tree_train_step,
        ):
            labels = [[3]] if step is tf_hsm.label_tree_train_step else [3]
            with pytest.raises(TypeError, match="inputs must be floats"):
                step(weights, None, labels, inputs, TREE, optimizer)
    np.testing.assert_array_equal(weights, np.ones(weights.shape))


def test_ragged_and_sparse_inputs():
    weights = tf.ones([TREE.num_rows, 2])
    ragged = tf.ragged.constant([[[1.0, 2.0]], []], ragged_rank=1)
    for inputs in (ragged, tf.sparse.from_dense([[1.0, 2.0]])):
        for loss, labels in (
            (tf_hsm.hierarchical_softmax_loss, [3]),
            (tf_hsm.label_tree_loss, [[3]]),
        ):
            message = r"inputs must be dense, but .*to_(tensor|dense)\("
            with pytest.raises(TypeError, match=message):
                loss(weights, None, labels, inputs, TREE)


def test_sparse_classes_that_are_allowed():
    weights, inputs = tf.ones([TREE.num_rows, 2]), tf.ones([1, 2])
    allowed = tf.sparse.from_dense([[True]])
    with pytest.raises(TypeError, match=r"tf.sparse.to_dense\(allowed\)"):
        tf_hsm.hierarchical_softmax_top_k(
            weights, None, inputs, TREE, 1, allowed=allowed
        )


@pytest.mark.parametrize("form", ["op", "layer", "fit", "weighted"])
def test_ragged_labels(form):
    """Sequences of different lengths, in place of padded ones."""
    labels = tf.ragged.constant([[2, 3, 9], [7], [6, 1]], dtype=tf.int64)
    x = np.ones([3, 3, WIDTH], "f4")
    head = heads_by_name.built("HierarchicalSoftmax")
    model = keras.Sequential([keras.Input([None, WIDTH]), head])
    model.compile("sgd", head.loss)
    data = tf.data.Dataset.from_tensor_slices((x, labels)).batch(3)
    calls = {
        "op": lambda: tf_hsm.hierarchical_softmax_loss(
            head.kernel, head.bias, labels, x, TREE
        ),
        "layer": lambda: head(x, labels),
        "fit": lambda: model.fit(data, verbose=0),
        "weighted": lambda: head.loss(labels, head(x), np.ones([3, 3])),
    }
    with pytest.raises(TypeError, match=r"to_tensor\(-1\), .*ignore_class=-1"):
        calls[form]()


@pytest.mark.parametrize("name", ["HierarchicalSoftmax", "LabelTree"])
def test_sparse_labels(name):
    labels = tf.sparse.from_dense(np.eye(30, dtype="int64")[:BATCH])
    head, x = heads_by_name.built(name), heads_by_name.inputs(name)
    with pytest.raises(TypeError, match=r"a SparseTensor: .*tf_hsm\.label"):
        head(x, labels)
    with pytest.raises(TypeError, match=r"a SparseTensor: .*tf_hsm\.label"):
        head.loss(labels, head(x))


X = heads_by_name.inputs("HierarchicalSoftmax").numpy()
Y = heads_by_name.labels("HierarchicalSoftmax")


def make_model(name="HierarchicalSoftmax", **options):
    head = heads_by_name.built(name, **options)
    model = keras.Sequential([keras.Input([WIDTH]), head])
    model.compile(
        keras.optimizers.SGD(0.1),
        head.loss,
        metrics=[metrics.Perplexity(head)],
        weighted_metrics=[metrics.TopKAccuracy(head)] * (name != "LabelTree"),
    )
    return model


@pytest.mark.parametrize("own", [None, "sgd"])
@pytest.mark.parametrize("name", ["HierarchicalSoftmax", "AdaptiveSoftmax"])
def test_labels_with_and_without_a_last_dimension(name, own):
    """In turn, when Keras traces for labels of any rank."""
    both, one = (make_model(name, optimizer=own) for _ in range(2))
    for labels in (Y, Y[:, None], Y, Y[:, None]):
        found = both.train_on_batch(X, labels)
        np.testing.assert_allclose(found, one.train_on_batch(X, Y), rtol=1e-5)
        found = both.evaluate(X, labels, verbose=0)
        np.testing.assert_allclose(
            found, one.evaluate(X, Y, verbose=0), rtol=1e-5
        )
    for wrong in (np.stack([Y, Y], 1), Y[None], Y[:, None, None]):
        with pytest.raises((ValueError, tf.errors.InvalidArgumentError)):
            both.train_on_batch(X, wrong)


def test_label_sets_after_labels_of_another_rank():
    model = make_model("LabelTree")
    model.train_on_batch(X, Y[:, None])
    with pytest.raises(
        (ValueError, tf.errors.InvalidArgumentError), match="shape"
    ):
        model.train_on_batch(X, Y)
    found = model.train_on_batch(X, heads_by_name.label_sets())
    assert np.isfinite(found).all()


@pytest.mark.parametrize("form", ["loss", "call", "step", "metric", "several"])
def test_sample_weights_of_another_length(form):
    """The error names the argument and the shapes."""
    own = "sgd" if form == "step" else None
    several = form == "several"
    head = heads_by_name.built(
        "HierarchicalSoftmax", optimizer=own, several_labels=several
    )
    weights = np.ones(BATCH - 1, "f4")
    calls = {
        "loss": lambda: head.loss(Y, head(X), weights),
        "call": lambda: head(X, Y, weights),
        "step": lambda: layer_step(head, X, Y, weights),
        "metric": lambda: metrics.Perplexity(head).update_state(Y, X, weights),
        "several": lambda: head(X, Y[:, None], weights),
    }
    text = r"sample_weight must broadcast to the shape \[12\], but .* \[11\]"
    before = head.get_weights()
    with pytest.raises(tf.errors.InvalidArgumentError, match=text):
        calls[form]()
    with pytest.raises(ValueError, match=text):
        tf.function(calls[form], autograph=False)()
    assert_same(head.get_weights(), before)


@pytest.mark.parametrize("name", heads_by_name.NAMES)
def test_wrong_thresholds(name):
    head, inputs = heads_by_name.built(name), heads_by_name.inputs(name)
    wrong = ValueError, tf.errors.InvalidArgumentError
    for threshold in (np.nan, [np.nan] * BATCH):
        with pytest.raises(wrong, match="must not be NaN"):
            head.top_k(inputs, 3, threshold=threshold)
    with pytest.raises(ValueError, match="threshold and bounds are both"):
        head.top_k(inputs, 3, threshold=0.5, bounds=np.zeros(BATCH))
    with pytest.raises(wrong, match="threshold"):
        head.top_k(inputs, 3, threshold=[0.5, 0.5])
