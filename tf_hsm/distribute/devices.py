"""Names of devices."""

from collections.abc import Iterable

from tf_hsm import _checks


def check_devices(devices):
    """Returns a tuple of names; where only their number is given, made up.

    Raises:
      TypeError: they are something else.
      ValueError: there is none.
    """
    if isinstance(devices, str | bytes | bool):
        raise TypeError(
            "devices must be a list of names of devices, or their number, but "
            f"is {devices!r}"
        )
    if not isinstance(devices, Iterable):
        count = _checks.check_int("devices", devices, 1)
        return tuple(f"device:{i}" for i in range(count))
    devices = tuple(devices)
    if not devices:
        raise ValueError("devices is empty; a plan has at least one")
    for i, device in enumerate(devices):
        if not isinstance(device, str):
            raise TypeError(
                f"devices[{i}] must be the name of a device, but is {device!r}"
            )
    return devices
