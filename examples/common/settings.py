"""Settings: a dataclass whose fields are flags of a command too.

Nothing here needs TensorFlow.
"""

import dataclasses
import operator
import typing

from absl import flags as absl_flags

absl_flags.disclaim_key_flags()  # A flag belongs to the module that asks.

_LIMITS = {
    "least": ("at least", operator.ge),
    "above": ("above", operator.gt),
    "below": ("below", operator.lt),
}


def setting(default, text, choices=(), least=None, above=None, below=None):
    """Returns a field of a settings class.

    Args:
        default: The default value.
        text: The help text of the flag.
        choices: The allowed values; none: all.
        least: The lowest allowed number.
        above: A number that the value must exceed.
        below: A number that the value must not reach.
    """
    limits = {"least": least, "above": above, "below": below}
    return dataclasses.field(
        default=default, metadata={"text": text, "choices": choices, **limits}
    )


def define(flags, settings_class):
    """Defines a flag for each field of a settings class.

    Args:
        flags: A `program.Flags`.
        settings_class: A dataclass whose fields `setting` made.
    """
    for field in dataclasses.fields(settings_class):
        name, default, text = field.name, field.default, field.metadata["text"]
        kind = _kind(field)
        if choices := field.metadata["choices"]:
            flags.DEFINE_enum(name, default, list(choices), text)
        elif kind is tuple:
            flags.DEFINE_list(name, list(map(str, default)), text)
        else:
            functions = {bool: "bool", int: "integer", float: "float"}
            define_one = f"DEFINE_{functions.get(kind, 'string')}"
            getattr(flags, define_one)(name, default, text)


def check(settings):
    """Checks all fields, and makes tuples of texts such as "512,256".

    Raises:
        ValueError: A value is not allowed; the message names its flag.
    """
    for field in dataclasses.fields(settings):
        name, limits = field.name, field.metadata
        value = getattr(settings, name)
        if value is None:
            continue
        if _kind(field) is tuple:
            value = _numbers(name, value)
            object.__setattr__(settings, name, value)
        if limits["choices"] and value not in limits["choices"]:
            raise ValueError(
                f"--{name}={value}: must be one of "
                f"{', '.join(limits['choices'])}."
            )
        values = value if isinstance(value, tuple) else (value,)
        for limit, (text, is_allowed) in _LIMITS.items():
            bound = limits[limit]
            if bound is not None and not all(
                is_allowed(x, bound) for x in values
            ):
                raise ValueError(
                    f"--{name}={as_flag(value)}: must be {text} {bound}."
                )


def given(settings_class, flags):
    """Returns the values of those fields whose flags the user gave."""
    fields = dataclasses.fields(settings_class)
    found = {field.name: flags.values[field.name] for field in fields}
    return {name: flag.value for name, flag in found.items() if flag.present}


def as_flag(value):
    """Returns a value as the text that a flag takes."""
    several = isinstance(value, (list, tuple))
    return ",".join(map(str, value)) if several else str(value)


def _kind(field):
    """The type of a field's value: bool, int, float, str or tuple."""
    options = typing.get_args(field.type) or (field.type,)
    kind = options[0] if type(None) in options else field.type
    return typing.get_origin(kind) or kind


def _numbers(name, value):
    text = as_flag(value)
    try:
        return tuple(int(part) for part in text.split(",") if text)
    except ValueError:
        raise ValueError(
            f"--{name}={text}: must be a whole number, or several with "
            "commas, as in 512,256."
        ) from None
