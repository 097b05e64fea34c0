"""What the settings of the examples share: a flag for each field, checked.

Nothing here needs TensorFlow.
"""

import codecs
import dataclasses
import inspect


def given(settings_class, values, flags):
    """The `values` of those fields of a class whose flags were given.

    Args:
        settings_class: a dataclass with a flag for each field.
        values: a dict with a value for each flag.
        flags: the `program.Flags`, read.
    """
    # Those of the constructor: a field that is its argument alone is one too.
    names = inspect.signature(settings_class).parameters
    return {name: values[name] for name in names if flags.values[name].present}


def differences(before, now):
    """Returns a text for each field in which two settings differ."""
    pairs = {
        field.name: (getattr(before, field.name), getattr(now, field.name))
        for field in dataclasses.fields(before)
    }
    return [
        f"--{name}: {text(old)} before, {text(new)} now"
        for name, (old, new) in pairs.items()
        if old != new
    ]


def check_resumed(folder, before, now, same_text):
    """Checks that a run continues with the settings and the text it began with.

    Args:
        folder: of the run.
        before: its settings.
        now: the settings to continue with.
        same_text: whether the corpus still has the same text.

    Raises:
        ValueError: something differs.
    """
    found = differences(before, now)
    if not same_text:
        found.append("--corpus: the text itself has changed")
    if found:
        raise ValueError(
            f"Cannot resume the run in {folder}: {'; '.join(found)}"
        )


def text(value):
    """A value as it is given to a flag."""
    several = isinstance(value, (list, tuple))
    return ",".join(map(str, value)) if several else str(value)


def check_choices(settings, choices):
    """Raises `ValueError` if a field is none of the values allowed for it."""
    for name, allowed in choices.items():
        if getattr(settings, name) not in allowed:
            raise ValueError(
                f"--{name}={getattr(settings, name)}: must be one of "
                f"{', '.join(allowed)}."
            )


def check_least(settings, least):
    """Raises `ValueError` if a field is below its least value, and not None."""
    for name, bound in least.items():
        value = getattr(settings, name)
        if value is not None and not value >= bound:
            raise ValueError(f"--{name}={value}: must be at least {bound}.")


def encoding(name):
    """The one name that Python has for an encoding, such as utf-8 for UTF8.

    Raises:
        ValueError: Python knows no such encoding of text.
    """
    try:
        " ".encode(name)
        return codecs.lookup(name).name
    except (LookupError, ValueError) as error:
        raise ValueError(
            f"--encoding={name}: not an encoding of text that Python knows, "
            "such as utf-8, utf-16 or cp1251."
        ) from error
