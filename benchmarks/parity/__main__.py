"""Parity: gradients and weights of a bundle on each runtime against a stock Keras model on the same batches.

Differences are the largest in an array, relative to its largest value: gradients of the first step, and each layer's
weights (kernel and bias as one vector) and their movement after 50 steps of momentum SGD with soft signed targets, a
class mask, a temperature, a proximal term and padded rows. Weights agree to 1e-6, unless rounding puts one activation
on the other side of ReLU's kink in one of the steps: then to 1e-4.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import sys
import tempfile
from typing import Any

from benchmarks.command import QUIET, Command, output_of_module, said
from benchmarks.parity.variants import BATCH, LARGER, STEPS, VARIANTS

RUNTIMES = {"c": "pymicro_wakeword", "tflite": "tflite_runtime", "litert": "ai_edge_litert"}


def worst(differences: dict[str, Any], kind: str) -> float:
    """Return the worst difference of a kind over all variants and arrays."""
    return max(float(error) for result in differences.values() for error in result[kind].values())


def main() -> int:
    """Print a line for each variant and runtime and, with ``--json``, the summary as the last line."""
    parser = Command("benchmarks.parity", __doc__)
    known = [*VARIANTS, *LARGER]
    parser.add_argument(
        "--variants", nargs="+", default=known, choices=known, help="default: all, which takes a quarter of an hour"
    )
    return parser.run(work)


def work(options: argparse.Namespace) -> dict[str, object]:
    """Print a line for each variant and runtime; return the summary."""
    by_runtime: dict[str, dict[str, Any]] = {}
    with tempfile.TemporaryDirectory() as folder:
        output_of_module("benchmarks.parity.reference", folder, STEPS, BATCH, *options.variants, **QUIET)
        for chosen, module in RUNTIMES.items():
            if importlib.util.find_spec(module) is None:
                continue
            environment = QUIET | {"AURICLE_RUNTIME": chosen}
            output = output_of_module("benchmarks.parity.device", folder, STEPS, *options.variants, **environment)
            differences = json.loads(output.splitlines()[-1])
            for variant, result in differences.items():
                figures = {kind: max(of.values()) for kind, of in result.items() if kind != "runtime"}
                said({"runtime": result["runtime"], "variant": variant, **figures})
                by_runtime[result["runtime"]] = differences
    return {
        "worst_gradient": max(worst(differences, "gradients") for differences in by_runtime.values()),
        "worst_weights": max(worst(differences, "weights") for differences in by_runtime.values()),
        "runtimes": list(by_runtime),
        "architectures": options.variants,
    }


if __name__ == "__main__":
    sys.exit(main())
