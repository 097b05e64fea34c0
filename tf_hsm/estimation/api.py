"""`tf_hsm.estimate`: what a model will need, before it is made."""

import dataclasses
import math

import keras

from tf_hsm import _checks
from tf_hsm._compiled_model import is_on_devices
from tf_hsm._units import read_amount
from tf_hsm.estimation import body as bodies
from tf_hsm.estimation import heads, slots, step
from tf_hsm.estimation.calibration import machine_of
from tf_hsm.estimation.part import BYTES, Setting
from tf_hsm.estimation.result import Comparison, Estimate, Replicas
from tf_hsm.layers.head_layer import HeadLayer
from tf_hsm.layers.replicated import is_over_replicas, num_replicas
from tf_hsm.runtime import private_keras

_OPTIMIZER, _HEAD_OPTIMIZER = "lazy_adam", "rowwise_adagrad"


def estimate(
    body=None,
    head=None,
    *,
    batch,
    length=None,
    width=None,
    num_classes=None,
    counts=None,
    vocabulary=None,
    dtype=None,
    optimizer=_OPTIMIZER,
    head_optimizer=None,
    corpus_tokens=None,
    memory=None,
    machine=None,
    replicas=1,
    shards=None,
    network=1.25e9,
    labels_per_example=1,
):
    """Says what a training step needs: memory, FLOPs, bytes moved, and time.

    Nothing is made and nothing runs: 10 million classes are answered as fast as
    ten. A model with a quantized head cannot train: the estimate is then for a
    forward pass, which computes the log-probability of each label.

    >>> print(tf_hsm.estimate("lstm:2x2048", num_classes=10_000_000, width=300,
    ...                       batch=400, length=100, memory="24GB",
    ...                       head_optimizer="rowwise_adagrad"))
    >>> print(tf_hsm.estimate(model, batch=64, length=35, optimizer="adam"))
    >>> print(tf_hsm.estimate(
    ...     None, ["full", "gather", "hierarchical"], num_classes=1_000_000,
    ...     width=300, batch=400))

    Args:
      body: what makes the inputs of the head: a built Keras model or layer (one
        that is too large, within `estimation.without_values()`); what
        `estimation.transformer` or `estimation.recurrent` returns; a text such
        as "lstm:2x2048", "gru:512", "transformer:6x512:8" (layers, width,
        heads) or "embedding:300"; or None, for a head alone. A Keras model may
        contain its head.
      head: a `tf_hsm.Tree`; a Keras layer (`HierarchicalSoftmax`,
        `LabelTree`, `AdaptiveSoftmax`, `SampledSoftmax`, `EmbeddingSoftmax`,
        `Dense`); what `estimation.head` returns; or, together with
        `num_classes`, one of "hierarchical" or "label_tree" (of two levels),
        "adaptive", "full", "sampled", "gather", "embedding_lookup" and
        "map_fn". Several of them in a list are compared. None: "hierarchical"
        where `num_classes` is given; else `body` has its head, or there is
        none.
      batch: sequences in a step, or examples.
      length: T, the length of a sequence; None: the body's length, or 1.
      width: D, the width of the head's inputs. A body of another width has a
        Dense layer after it. None: the width of the body.
      num_classes: N, or a text such as "10M".
      counts: how often each class occurs: "zipf", or `[N]`; None for the counts
        of the tree, or for all alike if it has none.
      vocabulary: for a body given as text, the rows of an embedding before it;
        None: none.
      dtype: of variables and activations: "float32", "bfloat16", "float16" or
        "float64"; or "mixed_bfloat16" or "mixed_float16" for activations of 16
        bits beside variables of 32. None: the type of a Keras model; else
        float32.
      optimizer: of the model: a name such as "adam", a Keras optimizer or one
        of `tf_hsm.optimizers`; or None, which trains nothing. Where another
        optimizer would need a tenth less, the printed estimate says so.
      head_optimizer: the optimizer with which a tree's head, or an adaptive
        one, updates its own weights in the backward, which then stores no
        gradient of the weights: "sgd", "adagrad", "rowwise_adagrad", "rmsprop",
        "lazy_adam", "lion" or one of `tf_hsm.optimizers`. None: the head has
        gradients, which the optimizer of the model applies. For heads given by
        name or as a tree.
      corpus_tokens: labels in an epoch, or a text such as "100M".
      memory: bytes that there are, or a text such as "24GB"; None: the bytes
        of the machine, if they are known.
      machine: a `Machine`; a name in `estimation.machines`; "here", which
        measures once in a process (see `estimation.calibrate`); a dict of its
        numbers; or None: a CPU of two cores.
      replicas: devices that train copies of the model, each on its part of the
        batch (data parallel). A layer with `devices="replicas"` has their
        number.
      shards: devices over which a tree's head is cut by subtree, as by
        `HierarchicalSoftmax(tree, devices=...)`; None: it is whole. Then the
        estimate is for a device with the body and the fullest shard. With
        `replicas` of the same number, the replicas have the shards, as by
        `devices="replicas"`; they may also have the tails of "adaptive".
      network: bytes a second out of each such device, and into it.
      labels_per_example: how many labels an example has in the mean: for a
        label tree, and for a layer of `tf_hsm.layers` with `several_labels`.
        Labels are taken to be drawn independently, by the counts.

    Returns:
      An `Estimate`; for a list of heads a `Comparison`.

    Raises:
      TypeError: an argument is of a type that is not listed.
      ValueError: an argument is out of its range; names it.
    """
    batch = _checks.check_int("batch", batch, 1)
    length, width = (
        value if value is None else _checks.check_int(name, value, 1)
        for name, value in (("length", length), ("width", width))
    )
    if num_classes is not None:
        amount = read_amount("num_classes", num_classes)
        num_classes = int(amount) if amount == int(amount) else amount
        num_classes = _checks.check_int("num_classes", num_classes, 1)
    _checks.check_real("labels_per_example", labels_per_example, 0)
    if corpus_tokens is not None:
        corpus_tokens = read_amount("corpus_tokens", corpus_tokens)
    several = isinstance(head, list | tuple)
    given = head if several else [head]
    replicas = _count_of(replicas, [body, *given])
    body = _body(body, length, vocabulary)
    length = _length(length, body)
    machine = machine_of(machine)
    network = read_amount("network", network, "B")
    memory = (
        machine.memory if memory is None else read_amount("memory", memory, "B")
    )
    setting = Setting(
        math.ceil(batch / replicas),
        length,
        *_dtypes(dtype, body),
        slots.of(optimizer),
        labels_per_example,
    )
    labels = setting.batch * (body.vectors(length) if body else length)

    def of_head(head):
        knows = head is None or head.takes_several_labels
        if labels_per_example != 1 and not knows:
            raise ValueError(
                f"labels_per_example is {labels_per_example}, but is for "
                f"heads of tf_hsm.layers, not for {head.name!r}"
            )
        found = figures(head, setting)
        return dataclasses.replace(
            found,
            find_alternatives=lambda: _alternatives(
                head, found.setting, figures
            ),
        )

    def figures(head, setting):
        parts, name = _parts(body, head, setting, width, labels, dtype)
        trains = setting.slots.optimizer is not None
        if trains and not all(part.can_train for part in parts):
            without = dataclasses.replace(setting, slots=slots.of(None))
            return figures(head, without)
        # Without an optimizer, parts keep their backward here: `step`
        # splits the time of both passes by their work.
        if trains:
            parts = _from_first_trained(parts)
        seconds = step.seconds(parts, machine, setting)
        if not trains:
            parts = tuple(part.untrained() for part in parts)
            seconds = [(forward, 0.0, 0.0) for forward, _, _ in seconds]
        return Estimate(
            name=name,
            parts=parts,
            seconds=tuple(seconds),
            setting=setting,
            labels=labels,
            machine=machine,
            memory=memory,
            corpus_tokens=corpus_tokens,
            replicas=Replicas.of(parts, replicas, network),
        )

    options = {} if counts is None else {"counts": counts}
    if head_optimizer is not None:
        options["optimizer"] = heads.read_optimizer(head_optimizer)
    if shards is not None:
        options |= {"shards": shards, "network": network}
    found = [heads.read(head, num_classes, options) for head in given]
    if replicas > 1:
        found = [h and h.over_replicas(replicas) for h in found]
    if not found:
        raise ValueError("head is empty; it must name a head, or several")
    estimates = tuple(map(of_head, found))
    return Comparison(estimates) if several else estimates[0]


def _count_of(replicas, given):
    """Returns the number of replicas, which a head over replicas also has.

    Args:
      replicas: the argument of the user.
      given: the bodies and heads of the user, Keras layers among them.
    """
    replicas = _checks.check_int("replicas", replicas, 1)
    on_devices = [
        layer
        for model in given
        if isinstance(model, keras.layers.Layer)
        for layer in private_keras.layers_of(model)
        if isinstance(layer, HeadLayer) and is_on_devices(layer)
    ]
    for head in on_devices:
        if is_over_replicas(head):
            count = num_replicas(head)
            if replicas not in (1, count):
                raise ValueError(
                    f"replicas is {replicas}, but {head.name} is over {count} "
                    "replicas: make it within the strategy's scope, or leave "
                    "out replicas"
                )
            replicas = count
        elif replicas > 1:
            raise ValueError(
                f"replicas is {replicas}, but the head is cut over devices by "
                "their names; leave out replicas, or give the layer devices="
                '"replicas"'
            )
    return replicas


def _alternatives(head, setting, figures):
    """Returns pairs: the arguments that differ, and `figures` of these."""
    if setting.slots.optimizer is None:
        return ()
    found, rows = [], setting
    if not setting.slots.works_on_rows:
        rows = dataclasses.replace(setting, slots=slots.of(_OPTIMIZER))
        found.append((f"optimizer={_OPTIMIZER}", figures(head, rows)))
    own = heads.read_optimizer(_HEAD_OPTIMIZER)
    in_place = head and head.in_place(own)
    if in_place is not None:
        text = f"head_optimizer={_HEAD_OPTIMIZER}"
        text = f"{found[0][0]} and {text}" if found else text
        found.append((text, figures(in_place, rows)))
    return tuple(found)


def _body(body, length, vocabulary):
    """Returns a `Body`, or None."""
    if vocabulary is not None:
        vocabulary = int(read_amount("vocabulary", vocabulary))
    if isinstance(body, str):
        return bodies.of_text(body, length or 1, vocabulary)
    if vocabulary is not None:
        raise ValueError(
            f"vocabulary is {vocabulary}, but is for a body given as text; "
            f"this one is {type(body).__name__}"
        )
    return None if body is None else bodies.of(body)


def _length(length, body):
    """Returns the length of a sequence, 1 without sequences."""
    known = body and body.length
    if known and length not in (None, known):
        raise ValueError(
            f"length is {length}, but the body's length is {known}"
        )
    length = length or known
    is_model = body is not None and body.dtypes is not None
    if length is None and is_model and None in body.leading:
        raise ValueError(
            f"length is missing, as {body.name!r} takes sequences of any length"
        )
    return length or 1


def _dtypes(dtype, body):
    """Returns the types of variables and of activations."""
    name = getattr(dtype, "name", dtype)
    if name is None:
        return getattr(body, "dtypes", None) or ("float32", "float32")
    short = str(name).removeprefix("mixed_")
    known = [t for t in BYTES if str(name) == short or BYTES[t] == 2]
    if short not in known:
        raise ValueError(
            f"dtype is {dtype!r}; it must be one of {', '.join(BYTES)}, "
            "mixed_bfloat16 and mixed_float16"
        )
    return (short if name == short else "float32"), short


def _parts(body, head, setting, width, labels, dtype):
    """Returns the parts of the model, and its name."""
    if body is None and head is None:
        raise ValueError(
            "there is nothing to estimate: give a body, or a head, by "
            "num_classes or by head"
        )
    parts, names = [], []
    of_labels = setting.of_examples(labels)
    if head is not None and head.width not in (None, width or head.width):
        raise ValueError(f"width is {width}, but head has {head.width}")
    if body is not None and head is not None and head.takes_ids:
        raise ValueError(
            f"{head.name} takes ids, but the body makes vectors; leave out the "
            "body, or give a Keras model that has the head"
        )
    if body is not None:
        own = None if dtype is None else setting.dtype
        parts += body.parts(setting, head is None, own)
        names.append(body.name)
        width, found = width or body.width, body.width
        if head is not None and width != found:
            parts.append(bodies.dense(found, width, of_labels, "projection"))
    if head is not None:
        width = width or head.width
        if width is None:
            raise ValueError(
                "width is missing: give the width of the head's inputs, as "
                "there is no body that has one"
            )
        parts += head.parts(of_labels, width)
        names.append(head.name)
    return tuple(parts), " + ".join(names)


def _from_first_trained(parts):
    """No backward goes below the first part that is trained."""
    trained = [bool(part.gradient_bytes or part.in_place) for part in parts]
    first = trained.index(True) if any(trained) else len(parts)
    return tuple(
        part.untrained() if number < first else part
        for number, part in enumerate(parts)
    )
