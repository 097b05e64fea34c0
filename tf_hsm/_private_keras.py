"""Every use of a Keras interface that is not public, in one place."""


def optimizer_of_model(layer):
    """The optimizer of the compiled model that is calling `layer`, or None."""
    return getattr(layer._get_call_context().entry_layer, "optimizer", None)
