"""Export of trained models, for servers that know neither Keras nor tf_hsm."""

import contextlib
import os
import re

import keras
import tensorflow as tf

from tf_hsm._head_reference import check_hidden
from tf_hsm.layers import LabelTree
from tf_hsm.layers.head_layer import HeadLayer, heads_of
from tf_hsm.runtime import tree_tensors
from tf_hsm.runtime.library import op_library_path

__all__ = ["export", "op_library_path"]

# What the signatures take beside the model's inputs; all but the first scalars.
_DTYPES = {
    "classes": tf.int64,
    "seed": tf.int64,
    "num_samples": tf.int64,
    "temperature": tf.float64,
    "top_k": tf.int64,
    "top_p": tf.float64,
    "threshold": tf.float64,
}


def export(model, path, *, head=None, k=10):
    """Writes a model with its head as a SavedModel with three signatures.

    All take the model's inputs by their names and with their dtypes, in batches
    of any size. Ids need `keras.Input(shape, dtype="int64")`: Keras takes the
    inputs of a Sequential model without `keras.Input` for float32.


    - `serving_default` takes no more. It returns the k most probable classes,
      `log_probs` and `classes`, each `[..., k]`, as `head.top_k` does.
    - `log_prob` takes `classes [..., C]` too, and returns their
      `log_probs [..., C]`, as `head.log_prob` does.
    - `sample` takes a `seed` too, and may take `num_samples` (else 1),
      `temperature` (1.0), `top_k` (0: all) and `top_p` (1.0: all). It returns
      `classes [..., num_samples]`, as `head.sample` does: the same ones for the
      same seed. A `LabelTree` has another one in its place:
    - `labels` may take a `threshold` (0.5), a probability. It returns what
      `serving_default` does, but only labels that are at least as probable, as
      `head.top_k(inputs, k, threshold)` does: where these are fewer than k, the
      rest have the class -1 and the log-probability minus infinity.

    Temperature, top_p and threshold are float64, whole numbers int64; all but
    the classes are scalars. Loaded by Python, `loaded.sample(inputs, seed)`
    knows the defaults; `loaded.signatures["sample"]` wants all inputs.

    A hidden vector with a NaN has no distribution: its `log_probs` are NaN or
    minus infinity, and its `classes` have no meaning in `serving_default` and
    are -1 in `sample`. The signatures raise no error, because the other vectors
    of the batch have right answers. A server that may get such inputs checks
    whether the `log_probs` are finite.

    A head on several devices is exported as one on one device, which must have
    room for a copy of its weights.

    The ops are not among TensorFlow's own: a process that loads the folder must
    first load the op library, with `tf.load_op_library`, or import tf_hsm. A
    copy of the library is in the folder's `assets.extra`, so that the folder
    serves wherever there is the same minor version of TensorFlow. A process may
    load the copies of several folders, if they are of one build.

    Args:
      model: a `keras.Model`, functional or Sequential, whose output is the
        hidden vectors of a head: `head(hidden)`, or `hidden` itself.
      path: the folder to make. It appears when it is complete.
      head: a head of `tf_hsm.layers`; None for the only head of the model. For
        a model that calls `head(hidden, labels)`, export
        `keras.Model(inputs, hidden)` with this head.
      k: how many classes `serving_default` returns, in
        `[1, head.num_classes]`.

    Raises:
      FileExistsError: there is something at `path`.
      OSError: it cannot be written; then nothing is left of it.
      TypeError: the head is none of `tf_hsm.layers`.
      ValueError: `model` has no head, a state that calls change, inputs that
        are ragged, not known or called like one of the above; or `k` is out of
        range.
    """
    path = os.fspath(path).rstrip("/")
    if tf.io.gfile.exists(path):
        raise FileExistsError(
            f"path = {path!r} exists already; give each export a new folder"
        )
    head = _head_of(model, head)
    inputs = _input_specs(model)
    # It finds the variables that the functions use. Told of a model, it would
    # write each of its weights twice.
    archive = keras.export.ExportArchive()
    for resource in tf.train.TrackableView(model).descendants():
        if isinstance(resource, tf.saved_model.experimental.TrackableResource):
            archive.track(resource)
    with contextlib.ExitStack() as scopes:
        scopes.enter_context(tree_tensors.kept_in_variables())
        scopes.enter_context(head.on_one_device())
        _add_signatures(archive, inputs, model, head, k)
        _write(archive, path)


def _input_specs(model):
    """Returns the inputs of the model, each tensor as a `tf.TensorSpec`."""
    # Sequential models have only `inputs`, subclassed ones neither.
    structure = getattr(model, "input", getattr(model, "inputs", None))
    if structure is None:
        raise ValueError(
            f"{model.name} does not know its inputs: call it on some, or make "
            "it functional, keras.Model(x, model(x)) with x = keras.Input(...)"
        )
    if isinstance(structure, list) and len(structure) == 1:
        (structure,) = structure
    tensors = keras.tree.flatten(structure)
    names = [_input_name(tensor, i) for i, tensor in enumerate(tensors)]
    for tensor, name in zip(tensors, names, strict=True):
        if getattr(tensor, "ragged", False):
            raise ValueError(
                f"{model.name} has the ragged input {name!r}, but signatures "
                "take tensors; export a copy whose input is padded, [batch, n]"
            )
        if name in _DTYPES or names.count(name) > 1:
            raise ValueError(
                f"{model.name} has an input called {name!r}, as another input "
                "of the signatures is; give each keras.Input its own name"
            )
    specs = [
        tf.TensorSpec([None, *tensor.shape[1:]], tensor.dtype, name)
        for tensor, name in zip(tensors, names, strict=True)
    ]
    return keras.tree.pack_sequence_as(structure, specs)


def _input_name(tensor, i):
    """Returns the name of input number i: Keras' name if somebody chose it."""
    if not re.fullmatch(r"keras_tensor(_\d+)?", tensor.name):
        return tensor.name
    return f"inputs_{i}" if i else "inputs"


def _head_of(model, head):
    """Returns the head of a model: the one that is given, or the only one."""
    if head is not None:
        if not isinstance(head, HeadLayer):
            raise TypeError(
                "head must be a layer of tf_hsm.layers, but is a "
                f"{type(head).__name__}"
            )
        return head
    heads = heads_of(model)
    if len(heads) != 1:
        names = ", ".join(one.name for one in heads) or "none"
        raise ValueError(
            f"{model.name} must have one head of tf_hsm.layers, but has "
            f"{names}; say by head=... whose hidden vectors its output is"
        )
    return heads[0]


def _functions(model, head, k):
    """Returns the functions of the signatures, in the order of `export`."""

    def hidden_of(inputs):
        return check_hidden(head, model(inputs), f"the output of {model.name}")

    def best(inputs, threshold=None):
        num_classes = head.num_classes
        if not 1 <= k <= num_classes:
            raise ValueError(
                f"k = {k} is outside [1, {num_classes}]; the upper end is the "
                "number of classes"
            )
        found = head.top_k(hidden_of(inputs), k, threshold=threshold)
        return found._asdict()

    def top_k(inputs):
        return best(inputs)

    def log_prob(inputs, classes):
        return {"log_probs": head.log_prob(classes, hidden_of(inputs))}

    # A SavedModel keeps defaults that are tensors.
    def sample(
        inputs,
        seed,
        num_samples=tf.constant(1, tf.int64),  # noqa: B008
        temperature=tf.constant(1.0, tf.float64),  # noqa: B008
        top_k=tf.constant(0, tf.int64),  # noqa: B008
        top_p=tf.constant(1.0, tf.float64),  # noqa: B008
    ):
        drawn = head.sample(
            hidden_of(inputs),
            num_samples,
            seed=seed,
            temperature=temperature,
            top_k=top_k,
            top_p=top_p,
        )
        return {"classes": drawn}

    def labels(inputs, threshold=tf.constant(0.5, tf.float64)):  # noqa: B008
        return best(inputs, threshold)

    return top_k, log_prob, sample, labels


def _add_signatures(archive, inputs, model, head, k):
    """Adds the signatures to an `ExportArchive`."""
    top_k, log_prob, sample, labels = _functions(model, head, k)
    default = archive.add_endpoint("serving_default", top_k, [inputs])
    traced = default.get_concrete_function()
    if any(
        op.type.startswith("Assign") for op in traced.graph.get_operations()
    ):
        raise ValueError(
            "the model has a state that each call changes, so that one request "
            "would change the answer to the next; export a copy without "
            "(stateful=False)"
        )
    batch = traced.structured_outputs["classes"].shape[:-1]
    name, *scalars, threshold = _DTYPES
    classes = tf.TensorSpec([*batch, None], _DTYPES[name], name)
    archive.add_endpoint("log_prob", log_prob, [inputs, classes])
    if isinstance(head, LabelTree):
        last, function, scalars = "labels", labels, [threshold]
    else:
        last, function = "sample", sample
    specs = [tf.TensorSpec([], _DTYPES[name], name) for name in scalars]
    archive.add_endpoint(last, function, [inputs, *specs])


def _write(archive, path):
    """Writes all into a folder beside `path`, which then takes that name."""
    folder, name = os.path.split(path)
    unfinished = os.path.join(folder, f".unfinished-{name}")
    # Left behind by a process that was killed.
    _remove(unfinished)
    try:
        archive.write_out(unfinished, verbose=False)
        extra = os.path.join(unfinished, "assets.extra")
        tf.io.gfile.makedirs(extra)
        library = op_library_path()
        copy = os.path.join(extra, os.path.basename(library))
        tf.io.gfile.copy(library, copy)
        tf.io.gfile.rename(unfinished, path)
    except (OSError, tf.errors.OpError) as error:
        # TensorFlow says "file; reason [Op:name]".
        reason = str(error).split("; ")[-1].split(" [Op:")[0]
        raise OSError(
            f"the model was not exported to {path!r}, and nothing is left "
            f"there: {reason}"
        ) from error
    finally:
        _remove(unfinished)


def _remove(folder):
    if tf.io.gfile.exists(folder):
        tf.io.gfile.rmtree(folder)
