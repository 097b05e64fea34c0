"""The most memory that a step has at a time, from that of its parts."""


def persistent_bytes(parts):
    """Returns what lives as long as the model."""
    return sum(
        p.parameter_bytes + p.slot_bytes + p.constant_bytes for p in parts
    )


def _making_peak(parts):
    """Returns the peak until all variables are there; slots come after them."""
    live = peak = 0
    for part in parts:
        live += part.parameter_bytes + part.constant_bytes
        peak = max(peak, live + part.making_bytes)
    return peak


def peak_bytes(parts, training=True):
    """Returns the peak of making the model and of a step of it.

    Variables are made part by part, then slots. A step is walked through in its
    order: each forward adds what it saves; each
    backward, from the last part to the first, frees that and adds gradients;
    the optimizer has all gradients.

    Args:
      parts: a list of `Part`s, in the order of the forward.
      training: whether there are gradients and an optimizer.
    """
    peak = _making_peak(parts)
    live = persistent_bytes(parts)
    peak = max(peak, live + max((p.filling_bytes for p in parts), default=0))
    for part in parts:
        # Without a backward nothing is kept, but it is there for a while.
        live += part.saved_bytes if training else 0
        now = part.forward_bytes + (0 if training else part.saved_bytes)
        peak = max(peak, live + now)
    if not training:
        return peak
    for part in reversed(parts):
        peak = max(peak, live + part.backward_bytes + part.gradient_bytes)
        live += part.gradient_bytes - part.saved_bytes
    return max(peak, live + max((p.update_bytes for p in parts), default=0))
