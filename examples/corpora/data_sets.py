"""Texts of data sets that other libraries wrote."""

import importlib

from examples.corpora import formats, text_check

_HUGGING_FACE_PARTS = {"validation": "valid"}


def texts(source, options):
    """Yields the texts of a data set, each with its part.

    Args:
        source: a `sources.Source` whose format is one of
            `formats.DATA_SETS`.
        options: `corpus.Options`: the name of the texts in an example (what is
            no dict has none), and the encoding of those that are bytes. A
            number counts as a word, and an array of them as words.

    Yields:
        `(part, text)`; the part is "" where the data set has none.

    Raises:
        ValueError: there is no such field, it holds no texts, or the data set
            is damaged.
    """
    readers = {
        "tfrecord": _tf_records,
        "tf_data": _tf_data,
        "hugging_face": _hugging_face,
    }
    path = source.folder
    try:
        for part, value in readers[source.format](source, options.field):
            text = _text(value, path, options.encoding)
            text_check.refuse_control(path, text, 0, b"", "utf-8")
            yield part, text
    except (ValueError, ImportError):
        raise
    except Exception as error:
        # The libraries raise errors of their own, as many as there are formats.
        reason = getattr(error, "message", str(error)).partition("\n")[0]
        raise ValueError(
            f"{path} is damaged, or no {source.format}: {reason}"
        ) from None


def _tf_records(source, field):
    import tensorflow as tf

    for path in source.parts[""].values():
        for record in tf.data.TFRecordDataset(path):
            example = tf.train.Example.FromString(record.numpy())
            features = example.features.feature
            kind = (
                features[field].WhichOneof("kind") if field in features else 0
            )
            if not kind:
                raise _no_field(path, field, features)
            yield "", list(getattr(features[field], kind).value)


def _tf_data(source, field):
    import tensorflow as tf

    # The folder is that of any of its files.
    data = tf.data.Dataset.load(source.folder)
    num = 0
    for element in data.as_numpy_iterator():
        if isinstance(element, dict):
            if field not in element:
                raise _no_field(source.folder, field, element)
            element = element[field]
        yield "", element
        num += 1
    # A file that was cut is read as a shorter one.
    if 0 <= int(data.cardinality()) != num:
        raise ValueError(
            f"{source.folder} is damaged: it has {num:,} of "
            f"{int(data.cardinality()):,} elements."
        )


def _hugging_face(source, field):
    try:
        datasets = importlib.import_module("datasets")
    except ModuleNotFoundError:
        raise ValueError(
            f"--corpus={source.folder} needs the library datasets: pip install "
            "datasets"
        ) from None
    data = datasets.load_from_disk(source.folder)
    parts = data if isinstance(data, datasets.DatasetDict) else {"": data}
    for name, part in parts.items():
        name = _HUGGING_FACE_PARTS.get(name, name)
        if name not in ("", *formats.PARTS):
            continue
        if field not in part.column_names:
            raise _no_field(source.folder, field, part.column_names)
        for example in part.select_columns([field]):
            yield name, example[field]


def _no_field(path, field, fields):
    return ValueError(
        f"{path} has no field {field!r}: --field must be one of "
        f"{', '.join(sorted(fields))}."
    )


def _text(value, path, encoding):
    """A value of an example as text; an array's elements become words."""
    if isinstance(value, bytes):
        try:
            return value.decode(encoding)
        except UnicodeError as error:
            raise ValueError(
                f"{path} has bytes that are no {encoding}: {error}"
            ) from None
    if isinstance(value, str):
        return value
    if hasattr(value, "__iter__"):
        return " ".join(_text(v, path, encoding) for v in value)
    return str(value)
