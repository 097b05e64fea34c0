"""What the settings of the examples share: a flag for each field, checked.

Nothing here needs TensorFlow.
"""

import codecs
import dataclasses


def given(settings_class, values, flags):
    """The `values` of those fields of a class whose flags were given.

    Args:
        settings_class: a dataclass with a flag for each field.
        values: a dict with a value for each flag.
        flags: the `program.Flags`, read.
    """
    return {
        field.name: values[field.name]
        for field in dataclasses.fields(settings_class)
        if flags.values[field.name].present
    }


def differences(before, now):
    """Returns a text for each field in which two settings differ."""
    return [
        f"--{field.name}: {getattr(before, field.name)} before, "
        f"{getattr(now, field.name)} now"
        for field in dataclasses.fields(before)
        if getattr(before, field.name) != getattr(now, field.name)
    ]


def check_choices(settings, choices):
    """Raises `ValueError` if a field is none of the values allowed for it."""
    for name, allowed in choices.items():
        if getattr(settings, name) not in allowed:
            raise ValueError(
                f"--{name}={getattr(settings, name)}: must be one of "
                f"{', '.join(allowed)}."
            )


def check_least(settings, least):
    """Raises `ValueError` if a field is below the least value for it."""
    for name, bound in least.items():
        if not getattr(settings, name) >= bound:
            raise ValueError(
                f"--{name}={getattr(settings, name)}: must be at least {bound}."
            )


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
