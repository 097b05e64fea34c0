"""Models that get a head for fewer classes, and go on training."""

import itertools

import keras
import numpy as np
import pytest

import tf_hsm
from tests.support.in_place_models import (
    FORMS,
    arguments,
    fit,
    layers_of,
    make_model,
)
from tests.support.models import (
    NUM_CLASSES,
    STEPS,
    TREE,
    WIDTH,
    head_of,
    make_data,
    make_head,
    sequential,
)
from tests.support.update_rules import OPTIMIZERS

# The tree is the Huffman tree of these, so rare classes share subtrees.
COUNTS = 1 + np.arange(NUM_CLASSES) ** 2
FEW = 9
KEEP = np.arange(NUM_CLASSES - FEW, NUM_CLASSES)
MODEL_OPTIMIZERS = {
    "rowwise_adagrad": OPTIMIZERS["rowwise_adagrad"],
    "momentum": lambda: tf_hsm.optimizers.SGD(
        keras.optimizers.schedules.ExponentialDecay(0.1, 3, 0.5), momentum=0.9
    ),
    "scaled": lambda: tf_hsm.optimizers.LossScaleOptimizer(
        tf_hsm.optimizers.LazyAdam(0.02), dynamic_growth_steps=2
    ),
    "keras_nadam": lambda: keras.optimizers.Nadam(
        0.02, gradient_accumulation_steps=2
    ),
}


def data_of(form, classes=None):
    """Data whose labels are kept classes, under their old or new numbers."""
    tokens, labels = make_data()
    labels = KEEP[labels % FEW]
    return arguments(
        form, tokens, labels if classes is None else classes[labels]
    )


def assert_same_state(pruned, model, rows):
    """All weights, rows and slots are the old ones."""
    optimizers = [[pruned.optimizer, model.optimizer]]
    heads = head_of(pruned), head_of(model)
    if heads[0].optimizer is not None:
        optimizers.append([head.optimizer for head in heads])
    variables = zip(pruned.variables, model.variables, strict=True)
    states = (
        zip(one.variables, other.variables, strict=True)
        for one, other in optimizers
    )
    num_of_rows = 0
    for mine, its in itertools.chain(variables, *states):
        mine, its = mine.numpy(), its.numpy()
        if mine.shape != its.shape:
            assert mine.shape[0] == rows.size
            its = its[rows]
            num_of_rows += 1
        np.testing.assert_array_equal(mine, its)
    assert num_of_rows >= 2


def check_goes_on(model, form):
    """A merged model trains as the old one does, on kept labels."""
    two_steps = {"epochs": 1, "batch_size": 11}
    fit(model, data_of(form), **two_steps)
    pruned, classes = tf_hsm.prune(model, FEW, counts=COUNTS)
    expected = TREE.prune(FEW, counts=COUNTS)
    assert head_of(pruned).tree == expected.tree
    assert head_of(model).tree == TREE
    np.testing.assert_array_equal(classes, expected.classes)
    assert_same_state(pruned, model, expected.rows)
    np.testing.assert_array_equal(
        fit(pruned, data_of(form, classes), **two_steps),
        fit(model, data_of(form), **two_steps),
    )
    assert_same_state(pruned, model, expected.rows)
    # And learns the merged classes.
    tokens, labels = make_data()
    data = arguments(form, tokens, classes[labels])
    losses = fit(pruned, data, epochs=6, batch_size=11)
    assert losses[-1] < losses[0]


def in_turns(names):
    """Each with one of the forms."""
    return list(zip(names, itertools.cycle(FORMS), strict=False))


@pytest.mark.parametrize(
    "rule, form", in_turns(["rowwise_adagrad", "lazy_adam"])
)
def test_goes_on_in_place(rule, form):
    check_goes_on(make_model(form, rule), form)


@pytest.mark.parametrize(
    "name, form, eager",
    [
        ("rowwise_adagrad", "compile", True),
        ("momentum", "endpoint", False),
        ("scaled", "compile", False),
        ("keras_nadam", "endpoint", True),
    ],
)
def test_goes_on_with_the_optimizer_of_the_model(name, form, eager):
    model = make_model(
        form,
        own=False,
        optimizer=MODEL_OPTIMIZERS[name](),
        compiling={"run_eagerly": eager},
    )
    check_goes_on(model, form)


@pytest.mark.parametrize("merge", [True, False])
@pytest.mark.parametrize("own, form", in_turns([True, False]))
def test_saved_model(own, form, merge, tmp_path):
    """Saved, loaded, pruned, trained, saved and loaded again."""
    two_steps = {"epochs": 1, "batch_size": 11}
    eagerly = {"run_eagerly": True}
    model = make_model(form, "lazy_adam", own, compiling=eagerly)
    fit(model, data_of(form), **two_steps)
    model.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    pruned, classes = tf_hsm.prune(loaded, KEEP, merge=merge)
    expected = TREE.prune(KEEP, merge=merge)
    assert_same_state(pruned, model, expected.rows)
    data = data_of(form, classes)
    losses = fit(pruned, data, **two_steps)
    if merge:
        np.testing.assert_array_equal(
            losses, fit(model, data_of(form), **two_steps)
        )
    else:
        assert head_of(pruned).num_classes == FEW
    pruned.save(tmp_path / "pruned.keras")
    again = keras.models.load_model(tmp_path / "pruned.keras")
    assert head_of(again).tree == expected.tree
    np.testing.assert_array_equal(
        fit(again, data, **two_steps), fit(pruned, data, **two_steps)
    )


def test_sequential_model_and_metrics():
    """Its layers are others, of the same names; metrics follow."""
    head = make_head(TREE.with_counts(COUNTS), name="words")
    model = sequential(keras.layers.Embedding(NUM_CLASSES, WIDTH), head)
    model.compile("adam", head.loss, metrics=[tf_hsm.metrics.Perplexity(head)])
    tokens, labels = make_data()
    model.fit(tokens, labels, verbose=0)
    pruned, classes = tf_hsm.prune(model, 0.3)
    assert isinstance(pruned, keras.Sequential)
    assert [x.name for x in pruned.layers] == [x.name for x in model.layers]
    assert pruned.layers[0] is not model.layers[0]
    history = pruned.fit(tokens, classes[labels], verbose=0).history
    assert set(history) == {"loss", "perplexity"}


@pytest.mark.parametrize("merge", [True, False])
def test_pinned_head(merge):
    tree = tf_hsm.Tree.huffman(COUNTS).pin()
    model = sequential(keras.layers.Embedding(8, WIDTH), make_head(tree))
    model.compile("adam", head_of(model).loss)
    tokens, labels = make_data()
    tokens, labels = tokens % 8, KEEP[labels % FEW]
    model.fit(tokens, labels, verbose=0)
    pruned, classes = tf_hsm.prune(model, KEEP, merge=merge)
    rows = tree.prune(KEEP, merge=merge).rows
    assert_same_state(pruned, model, rows[::2] // 2)
    pruned.fit(tokens, classes[labels], verbose=0)


def test_before_training():
    """A model that has no state yet, compiled or not."""
    for compiled in (True, False):
        model = sequential(keras.layers.Embedding(NUM_CLASSES, 4), make_head())
        if compiled:
            model.compile("adam", head_of(model).loss)
        pruned, _ = tf_hsm.prune(model, KEEP, merge=False)
        assert pruned.compiled == compiled
        assert head_of(pruned).num_classes == FEW


def test_outputs_that_ask_the_head():
    """Answers of the head are answers of the new one."""
    head = make_head()
    tokens = keras.Input([STEPS], dtype="int32")
    hidden = keras.layers.Embedding(NUM_CLASSES, WIDTH)(tokens)
    model = keras.Model(
        tokens,
        [
            head.predict_class(hidden),
            head.log_probs(hidden),
            *head.top_k(hidden, 3),
        ],
    )
    pruned, _ = tf_hsm.prune(model, KEEP)
    x, _ = make_data()
    best, log_probs, _, classes = map(np.array, pruned(x))
    assert log_probs.shape[-1] == head_of(pruned).num_classes < NUM_CLASSES
    np.testing.assert_array_equal(best, np.argmax(log_probs, -1))
    np.testing.assert_array_equal(classes[..., 0], best)
    np.testing.assert_array_equal(
        log_probs[..., :FEW], np.array(model(x)[1])[..., KEEP]
    )
    assert len(layers_of(pruned)) == 2


@pytest.mark.parametrize("merge, with_counts", [(1, 1), (1, 0), (0, 1)])
@pytest.mark.parametrize("rule, by_name", [("lazy_adam", 1), ("adagrad", 0)])
def test_embeddings(rule, by_name, merge, with_counts):
    """Tokens go with the classes; merged ones begin as a mean."""
    table = keras.layers.Embedding(NUM_CLASSES, WIDTH, name="tokens")
    head = make_head(TREE.with_counts(None))
    tokens = keras.Input([STEPS], dtype="int32")
    model = keras.Model(tokens, head(sequential(table)(tokens)))
    model.compile(OPTIMIZERS[rule](), head.loss, run_eagerly=True)
    x, y = make_data()
    fit(model, {"x": x, "y": y})
    pruned, classes = tf_hsm.prune(
        model,
        KEEP,
        merge=bool(merge),
        counts=COUNTS.tolist() if with_counts else None,
        embeddings=["tokens" if by_name else table],
    )
    (new,) = (x for x in pruned._flatten_layers() if x.name == "tokens")
    assert new.input_dim == head_of(pruned).num_classes
    old_rows, rows = (v.get_weights()[0] for v in (table, new))
    num_merged = 0
    slots = zip(
        pruned.optimizer.slots(new._embeddings),
        model.optimizer.slots(table._embeddings),
        strict=True,
    )
    slots = [[one.numpy(), other.numpy()] for one, other in slots]
    for c in range(new.input_dim):
        old = np.flatnonzero(classes == c)
        weights = COUNTS[old] if with_counts else np.ones(old.size)
        if old.size == 1:
            np.testing.assert_array_equal(rows[c], old_rows[old[0]])
            for slot, its in slots:
                np.testing.assert_array_equal(slot[c], its[old[0]])
        else:
            num_merged += 1
            np.testing.assert_allclose(
                rows[c], np.average(old_rows[old], 0, weights), 1e-5, 1e-6
            )
            for slot, _ in slots:
                assert np.unique(slot[c]).size == 1  # as it begins
    assert (num_merged > 0) == merge
    x, y = x % FEW, y % FEW
    fit(pruned, {"x": x, "y": y})


def test_embeddings_and_head_have_the_same_words():
    """A kept token leads to the probabilities that it led to."""
    table = keras.layers.Embedding(NUM_CLASSES, WIDTH, name="tokens")
    model = sequential(table, make_head())
    pruned, classes = tf_hsm.prune(model, KEEP, embeddings=["tokens"])
    x = np.resize(KEEP, [4, STEPS])
    hidden = [m.layers[0](i) for m, i in ((model, x), (pruned, classes[x]))]
    old, new = (
        head_of(m).log_probs(h).numpy()
        for m, h in zip((model, pruned), hidden, strict=True)
    )
    np.testing.assert_array_equal(new[..., :FEW], old[..., KEEP])


def test_weight_decay_excludes_the_same():
    head = make_head()
    model = sequential(keras.layers.Embedding(NUM_CLASSES, WIDTH), head)
    optimizer = keras.optimizers.SGD(0.1, weight_decay=0.5)
    optimizer.exclude_from_weight_decay([head.bias])
    model.compile(optimizer, loss=head.loss, run_eagerly=True)
    tokens, labels = make_data()
    model.fit(tokens, labels, verbose=0)
    pruned, _ = tf_hsm.prune(model, KEEP)
    bias = head_of(pruned).bias
    bias.assign(np.full(bias.shape, 3.0))
    kernel = head_of(pruned).kernel.numpy()
    pruned.optimizer.apply(
        [keras.ops.zeros(v.shape) for v in pruned.trainable_variables]
    )
    assert np.any(head_of(pruned).kernel.numpy() != kernel)
    np.testing.assert_array_equal(bias.numpy(), 3.0)


def of_layers(*layers):
    return keras.Sequential([keras.Input([WIDTH]), *layers])


def two_heads():
    x = keras.Input([WIDTH])
    heads = make_head(name="one"), make_head(name="two")
    return keras.Model(x, [head(x) for head in heads])


def trained(optimizer):
    model = of_layers(make_head())
    model.compile(optimizer, head_of(model).loss)
    model.optimizer.build(model.trainable_variables)
    return model


def tied():
    table = keras.layers.Embedding(NUM_CLASSES, WIDTH)
    tree = tf_hsm.Tree.flat(NUM_CLASSES)
    return sequential(table, make_head(tree, tied_to=table))


@pytest.mark.parametrize(
    "make, message",
    [
        (
            lambda: of_layers(keras.layers.Dense(3)),
            "has no head of tf_hsm.layers",
        ),
        (
            lambda: of_layers(
                tf_hsm.layers.AdaptiveSoftmax(30, cutoffs=[5], name="adaptive")
            ),
            "adaptive: prune is not possible for AdaptiveSoftmax",
        ),
        (tied, "prune is not possible with tied_to"),
        (two_heads, "has the heads one, two; say by head=... .* prune"),
        (
            lambda: trained(keras.optimizers.Adafactor()),
            "adafactor.* has a state of rows together",
        ),
        (
            lambda: trained(keras.optimizers.Adam(use_ema=True)),
            "adam.* has use_ema",
        ),
    ],
    ids=itertools.count(),
)
def test_refused_models(make, message):
    with pytest.raises(ValueError, match=message):
        tf_hsm.prune(make(), KEEP)


def test_one_of_two_heads():
    model = two_heads()
    pruned, _ = tf_hsm.prune(model, KEEP, merge=False, head=model.layers[2])
    sizes = {x.name: x.num_classes for x in pruned.layers[1:]}
    assert sizes == {"one": NUM_CLASSES, "two": FEW}


@pytest.mark.parametrize(
    "options, error, message",
    [
        ({"keep": 31}, ValueError, "keep is 31; the tree has 30 classes"),
        ({"keep": 5, "counts": [1]}, ValueError, "counts has 1 entries"),
        ({"keep": 5}, ValueError, "the tree has no counts"),
        ({"embeddings": ["none"]}, ValueError, "has no layer 'none'"),
        ({"embeddings": ["dense"]}, TypeError, "dense is a Dense; embeddings"),
        (
            {"embeddings": ["more"]},
            ValueError,
            "more has 33 rows, but .* has 30",
        ),
        (
            {"embeddings": ["masked"]},
            ValueError,
            "masked has mask_zero, so that token 0 is no word; keep class 0",
        ),
    ],
    ids=itertools.count(),
)
def test_refused_arguments(options, error, message):
    tokens = keras.Input([STEPS], dtype="int32")
    layers = [
        keras.layers.Embedding(NUM_CLASSES + 3, WIDTH, name="more"),
        keras.layers.Embedding(
            NUM_CLASSES, WIDTH, mask_zero=True, name="masked"
        ),
    ]
    hidden = keras.layers.Add()([layer(tokens) for layer in layers])
    hidden = keras.layers.Dense(WIDTH, name="dense")(hidden)
    tree = TREE.with_counts(None)
    model = keras.Model(tokens, make_head(tree)(hidden))
    with pytest.raises(error, match=message):
        tf_hsm.prune(model, **{"keep": KEEP, **options})
