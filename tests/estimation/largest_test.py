"""`tf_hsm.estimation.largest`: the answer fits, a tenth more does not."""

import keras
import pytest

import tf_hsm
from tf_hsm.estimation import inverse

largest = tf_hsm.estimation.largest
NINE = tf_hsm.estimation.recurrent("gru", 8, length=9)
DENSE, TREE = keras.layers.Dense(3), tf_hsm.Tree.two_level(9)


@pytest.mark.parametrize(
    ("what", "arguments"),
    [
        (
            "batch",
            {"num_classes": "1M", "length": 20, "head_optimizer": "adagrad"},
        ),
        ("length", {"num_classes": 10_000, "batch": 16, "optimizer": "sgd"}),
        ("width", {"num_classes": 50_000, "batch": 16, "length": 4}),
        ("num_classes", {"batch": 16, "length": 4, "optimizer": "sgd"}),
        ("num_classes", {"batch": 16, "head": "gather", "optimizer": "sgd"}),
    ],
)
def test_the_next_does_not_fit(what, arguments):
    arguments = {"memory": "4GB", "head": "hierarchical", **arguments}
    head = arguments.pop("head")
    value = largest("gru:64", head, what=what, **arguments)

    arguments = {"batch": 1, **arguments}
    for size in (value, value + 1, value + value // 10 + 1):
        if what == "width":
            found = tf_hsm.estimate(f"gru:{size}", head, **arguments)
        else:
            found = tf_hsm.estimate("gru:64", head, **arguments | {what: size})
        assert found.fits == (size == value)


@pytest.mark.parametrize(("text", "unit"), [(":8", 8), ("", 64)])
def test_a_transformer_keeps_whole_heads(text, unit):
    options = {"length": 32, "batch": 4, "memory": "1GB", "optimizer": "sgd"}
    value = largest(f"transformer:2x512{text}", what="width", **options)
    assert value % unit == 0
    for width, fits in ((value, True), (value + unit, False)):
        found = tf_hsm.estimate(f"transformer:2x{width}{text}", **options)
        assert found.fits == fits


def test_a_width_without_a_body():
    options = {"memory": "1GB", "optimizer": "sgd"}
    value = largest(num_classes=1000, batch=4, what="width", **options)
    assert value > 1000


def test_more_may_fit_beyond_the_first_limit(monkeypatch):
    """A larger step may keep less."""

    class Found:
        def __init__(self, value):
            self.fits = value <= 100 or 106 <= value <= 111

    monkeypatch.setattr(
        inverse, "estimate", lambda *_, batch, **__: Found(batch)
    )
    assert largest(memory="1GB", what="batch") == 111


@pytest.mark.parametrize(
    ("args", "arguments", "message"),
    [
        (("lstm:8",), {"what": "depth"}, "what is 'depth'; it must be one of"),
        (("lstm:8",), {"batch": 3}, "batch is 3, but is what is looked for"),
        (("lstm:8", ["full"]), {}, "head is a list"),
        ((NINE,), {"what": "length"}, "the length of the body is 9 already"),
        (("lstm:8",), {"memory": "1kB"}, "not even 1 fits: lstm 8 needs"),
        (("lstm:8",), {"memory": "x"}, "memory is 'x'"),
        ((DENSE,), {"what": "width"}, "the width of a Dense cannot be changed"),
        ((None, TREE), {"what": "num_classes"}, "classes of a Tree cannot be"),
        (("lstm:8",), {"memory": 1e17}, "there is no largest"),
    ],
)
def test_bad_arguments(args, arguments, message):
    with pytest.raises((TypeError, ValueError), match=message):
        largest(*args, **{"memory": "2GB", "optimizer": "sgd", **arguments})
