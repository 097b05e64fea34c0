"""The calls of layers that a functional model is made of."""

from typing import Any, NamedTuple

from tf_hsm.runtime import private_keras


class Call(NamedTuple):
    """A call of a layer or operation in a model.

    Attributes:
      operation: what is called.
      inputs: KerasTensors among the arguments.
      outputs: KerasTensors.
      arguments: all of them.
    """

    operation: Any
    inputs: list
    outputs: list
    arguments: Any

    def filled(self, tensors):
        """Returns args and kwargs with tensors in place of the inputs."""
        by_id = {
            id(given): tensor
            for given, tensor in zip(self.inputs, tensors, strict=True)
        }
        return self.arguments.fill_in(by_id)

    def first_argument(self):
        """Returns the first argument, or the one named `inputs`."""
        args, kwargs = self.arguments.args, self.arguments.kwargs
        return args[0] if args else kwargs["inputs"]


def calls_of(model):
    """The calls of a Functional or Sequential model, in their order.

    Returns:
      A list of `Call`s, the inputs of the model first, whose operation is an
      `InputLayer`; None for a model whose calls are not known beforehand.
    """
    nodes = private_keras.nodes_of(model)
    return nodes and [
        Call(
            node.operation,
            node.arguments.keras_tensors,
            node.outputs,
            node.arguments,
        )
        for node in nodes
    ]
