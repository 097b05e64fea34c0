"""The device, or the replica, of each tail of an adaptive softmax."""

from tf_hsm.distribute.plan_devices import (
    check_devices,
    devices_of_replicas,
    is_replicas,
    replicas_here,
)
from tf_hsm.heads.tree_head import TreeHead
from tf_hsm.layers.replicated import check_optimizer, check_replicas
from tf_hsm.runtime import row_parts
from tf_hsm.runtime.devices import check_present


class TailPlaces:
    """The places of tails, which are numbered from 1.

    Tails lie on the devices in turn.

    Attributes:
      given: "replicas", a tuple of the names that the user gave, or None.
      on_replicas: whether each replica of a strategy has some of the tails.
      devices: the names of the devices, a tuple; empty: the tails lie where the
        layer is.

    Args:
      layer: the `AdaptiveSoftmax`.
      devices: see `AdaptiveSoftmax`.
      optimizer: of the layer's own, or None.

    Raises:
      TypeError: `devices` is of a wrong type.
      ValueError: "replicas" without an optimizer, or under another strategy.
    """

    def __init__(self, layer, devices, optimizer):
        self.on_replicas = is_replicas(devices)
        self.given, self.devices = devices, ()
        if self.on_replicas:
            check_optimizer(layer, optimizer)
            self.devices = devices_of_replicas()
        elif devices is not None:
            self.given = self.devices = check_devices(devices)

    def check(self, layer):
        """Raises a ValueError if a layer cannot be built on the devices."""
        if self.on_replicas:
            check_replicas(layer, self.devices)
        else:
            check_present(self.devices)

    def owners(self, num_tails):
        """Returns the number of the replica of each tail, or None."""
        if not self.on_replicas:
            return None
        return tuple(map(self._index, range(1, num_tails + 1)))

    def of_projection(self, number):
        """Returns the name of the device of a projection and its products.

        None: each replica has a copy, which the optimizer of the model trains.
        """
        if self.on_replicas or not self.devices:
            return None
        return self.devices[self._index(number)]

    def make_rows(self, number, tree, make):
        """Returns the `TreeHead` of a tail.

        Args:
          number: of the tail.
          tree: of the tail.
          make: takes the name of a device, or None, and makes the `TreeHead`
            with its variables. It is not called for a tail that another
            process has.
        """
        device = None
        if self.devices:
            device = self.devices[self._index(number)]
        if not self.on_replicas:
            with row_parts.on(device):
                head = make(device)
            for variable in head.variables():
                row_parts.place(variable, device)
            return head
        if device not in replicas_here():
            return TreeHead(None, None, tree)
        with row_parts.part_on(device):
            head = make(device)
        for variable in head.variables():
            # All rows, but without copies on other replicas.
            row_parts.place(variable, device, row_parts.whole_of(variable))
        return head

    def _index(self, number):
        return (number - 1) % len(self.devices)
