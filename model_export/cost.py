"""What training costs a device: multiply-adds of a bundle's graph, and what they mean for a Raspberry Pi 2.

Counted from the shapes of the graph's own operators, forward and backward; sums, activations and copies come on top.
"""

import math
from collections.abc import Callable
from typing import Any

from model_export.graph_operators import read_signature

Shape = tuple[int, ...]

# A Cortex-A7 core at 900 MHz begins one float32 multiply-add per cycle: no program can be quicker.
_PI_2_MULTIPLY_ADDS_PER_S = 0.9e9
# Gudur & Perepu 2021 report 1.2 s per epoch on that board; fifty times that is no longer training between sounds.
_LONGEST_PI_2_S_PER_1000 = 60.0

_COUNTED: dict[str, Callable[[list[Shape], Shape, Any], int]] = {
    "CONV_2D": lambda inputs, output, _: math.prod(output) * math.prod(inputs[1][1:]),
    "DEPTHWISE_CONV_2D": lambda inputs, output, _: math.prod(output) * math.prod(inputs[1][1:3]),
    "TRANSPOSE_CONV": lambda inputs, _output, _: math.prod(inputs[2]) * math.prod(inputs[1][:3]),
    "FULLY_CONNECTED": lambda inputs, output, _: math.prod(output) * inputs[1][-1],
    "BATCH_MATMUL": lambda inputs, output, adjoint: math.prod(output) * inputs[0][-2 if adjoint else -1],
}


def training_multiply_adds(graph: bytes, batch: int) -> int:
    """Count the multiply-adds of a training step, forward and backward, for each of its rows. Raises OperatorError."""
    return multiply_adds_of(graph, "train") // batch


def multiply_adds_of(graph: bytes, signature: str) -> int:
    """Count the multiply-adds of a signature at the graph's batch size. Raises OperatorError: there is none such."""
    return sum(
        _COUNTED[name](inputs, output, adjoint)
        for name, inputs, output, adjoint in read_signature(graph, signature)
        if name in _COUNTED
    )


def _pi_2_seconds_per_1000(multiply_adds: int) -> float:
    """Return what 1,000 samples take a Raspberry Pi 2 at the very least, on one core, in seconds."""
    return multiply_adds * 1000 / _PI_2_MULTIPLY_ADDS_PER_S


def too_large(multiply_adds: int) -> bool:
    """Return whether 1,000 samples take a Raspberry Pi 2 more than a minute."""
    return _pi_2_seconds_per_1000(multiply_adds) > _LONGEST_PI_2_S_PER_1000


def describe(multiply_adds: int) -> str:
    """Return a line on the cost of training on one sample, ending in whether it is too much for a Raspberry Pi 2."""
    line = (
        f"training takes {multiply_adds / 1e6:.2f} million multiply-adds per sample: "
        f"at least {_pi_2_seconds_per_1000(multiply_adds):.1f} s per 1,000 samples on one core of a Raspberry Pi 2"
    )
    return f"{line}, which is TOO LARGE for that board" if too_large(multiply_adds) else line
