"""The adaptive softmax of PyTorch; PyTorch suffices."""

import torch


def make(spec):
    """Makes the module with random weights, and holds PyTorch to its threads.

    Args:
      spec: "threads", and the arguments "num_classes", "width", "cutoffs" and
        "div_value".
    """
    torch.set_num_threads(spec["threads"])
    torch.manual_seed(1)
    return torch.nn.AdaptiveLogSoftmaxWithLoss(
        spec["width"],
        spec["num_classes"],
        spec["cutoffs"],
        div_value=spec["div_value"],
    )


def facts(softmax):
    """What an `Implementation` says about itself, of this module."""
    return {
        "version": torch.__version__,
        "parameters": sum(p.numel() for p in softmax.parameters()),
    }
