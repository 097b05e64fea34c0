"""Texts of data sets that other libraries wrote."""

import importlib

from examples.corpora import formats

_HUGGING_FACE_PARTS = {"validation": "valid"}


def texts(source, field):
    """Yields the texts of a data set, each with its part.

    Args:
        source: a `sources.Source` whose format is one of
            `formats.DATA_SETS`.
        field: the name of the texts in an example; what is no dict has none.
            A number counts as a word, and an array of them as words.

    Yields:
        `(part, text)`; the part is "" where the data set has none.

    Raises:
        ValueError: there is no such field, or it holds no texts.
    """
    readers = {
        "tfrecord": _tf_records,
        "tf_data": _tf_data,
        "hugging_face": _hugging_face,
    }
    yield from readers[source.format](source, field)


def _tf_records(source, field):
    import tensorflow as tf

    for path in source.parts[""].values():
        try:
            for record in tf.data.TFRecordDataset(path):
                example = tf.train.Example.FromString(record.numpy())
                features = example.features.feature
                if field not in features:
                    raise _no_field(path, field, features)
                feature = features[field]
                kind = feature.WhichOneof("kind")
                yield "", _text(list(getattr(feature, kind).value), path)
        except tf.errors.DataLossError as error:
            raise ValueError(
                f"{path} is damaged, or no TFRecord: {error.message}"
            ) from None


def _tf_data(source, field):
    import tensorflow as tf

    # The folder is that of any of its files.
    data = tf.data.Dataset.load(source.folder)
    for element in data.as_numpy_iterator():
        if isinstance(element, dict):
            if field not in element:
                raise _no_field(source.folder, field, element)
            element = element[field]
        yield "", _text(element, source.folder)


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
        for text in part[field]:
            yield name, _text(text, source.folder)


def _no_field(path, field, fields):
    return ValueError(
        f"{path} has no field {field!r}: --field must be one of "
        f"{', '.join(sorted(fields))}."
    )


def _text(value, path):
    """A value of an example as text; an array's elements become words."""
    if isinstance(value, bytes):
        try:
            return value.decode()
        except UnicodeError as error:
            raise ValueError(
                f"{path} has bytes that are no UTF-8: {error}"
            ) from None
    if isinstance(value, str):
        return value
    if hasattr(value, "__iter__"):
        return " ".join(_text(v, path) for v in value)
    return str(value)
