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
import os
import subprocess
import sys
import tempfile
from typing import Any

from benchmarks.parity.variants import BATCH, LARGER, STEPS, VARIANTS

RUNTIMES = {"tflite": "tflite_runtime", "litert": "ai_edge_litert"}


def run(module: str, *arguments: object, **environment: str) -> str:
    """Run a module of this package in a process of its own; return what it printed."""
    quiet = {"TF_CPP_MIN_LOG_LEVEL": "3", "CUDA_VISIBLE_DEVICES": "-1"}
    command = [sys.executable, "-m", f"benchmarks.parity.{module}", *map(str, arguments)]
    result = subprocess.run(
        command, env={**os.environ, **quiet, **environment}, capture_output=True, text=True, check=False
    )
    if result.returncode:
        raise RuntimeError(f"{' '.join(command)} failed:\n{result.stderr}")
    return result.stdout


def worst(differences: dict[str, Any], kind: str) -> float:
    """Return the worst difference of a kind over all variants and arrays."""
    return max(float(error) for result in differences.values() for error in result[kind].values())


def main() -> None:
    """Print a line for each variant and runtime and, with ``--json``, the summary as the last line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true", help="end with one JSON object")
    known = [*VARIANTS, *LARGER]
    parser.add_argument(
        "--variants", nargs="+", default=known, choices=known, help="default: all, which takes a quarter of an hour"
    )
    options = parser.parse_args()
    by_runtime: dict[str, dict[str, Any]] = {}
    print(f"{'runtime':<16}{'variant':<15}{'gradients':>11}{'weights':>11}{'movements':>11}{'losses':>11}")
    with tempfile.TemporaryDirectory() as folder:
        run("reference", folder, STEPS, BATCH, *options.variants)
        for chosen, module in RUNTIMES.items():
            if importlib.util.find_spec(module) is None:
                continue
            differences = json.loads(
                run("device", folder, STEPS, *options.variants, AURICLE_RUNTIME=chosen).splitlines()[-1]
            )
            for variant, result in differences.items():
                figures = (max(result[kind].values()) for kind in ("gradients", "weights", "movements", "values"))
                print(f"{result['runtime']:<16}{variant:<15}" + "".join(f"{figure:>11.1e}" for figure in figures))
                by_runtime[result["runtime"]] = differences
    if options.json:
        summary = {
            "worst_gradient": max(worst(differences, "gradients") for differences in by_runtime.values()),
            "worst_weights": max(worst(differences, "weights") for differences in by_runtime.values()),
            "runtimes": list(by_runtime),
            "architectures": options.variants,
        }
        print(json.dumps(summary))


if __name__ == "__main__":
    main()
