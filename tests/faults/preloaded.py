"""Child processes in which the interposer can let calls fail."""

import os
import pathlib

from tests.support import children

_INTERPOSER = pathlib.Path(__file__).with_name("libinterposer.so")


def run(module, arguments, first=0):
    """Like `children.run`, with the interposer (interposer.cc) preloaded."""
    return children.run(
        module,
        arguments,
        first,
        environment={
            "LD_PRELOAD": os.environ.get("TF_HSM_INTERPOSER", str(_INTERPOSER)),
            # TensorFlow's other allocator asks for memory rarely, and waits for
            # 10 s where there is none.
            "TF_ENABLE_ONEDNN_OPTS": "0",
            "TF_CPP_MIN_LOG_LEVEL": "3",
        },
    )
