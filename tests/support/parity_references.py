"""Bundles, and what stock Keras makes of the parity check's batches with them.

Made once, by this machine's TensorFlow; an emulated board reads them. `python -m tests.support.parity_references`
makes them now.
"""

import shutil
from pathlib import Path

from benchmarks.parity.variants import BATCH, LARGER, STEPS, VARIANTS
from fleet_protocol.bundle.ready_bundles import find_bundle, ready_names
from tests.support.checkout import built, run_python

# All steps of the large networks take minutes.
FEW_STEPS, SMALL_BATCH = 5, 3
# One of each kind is enough.
_TWINS = {"crnn_tiny", "crnn_mid", "crnn_base", "crnn_deep", "dscnn_172"}
FEWER_LARGER = tuple(name for name in LARGER if name not in _TWINS)


def references() -> Path:
    """Return the folder of all variants: NAME.auricle, and NAME.npz of all steps."""
    return built("parity", lambda folder: _make(folder, STEPS, BATCH, *VARIANTS))


def larger_references() -> Path:
    """Return the folder of the larger networks: NAME.auricle, and NAME.npz of a few steps."""
    return built("parity-larger", lambda folder: _make(folder, FEW_STEPS, SMALL_BATCH, *FEWER_LARGER))


def _make(folder: Path, steps: int, batch: int, *names: str) -> None:
    for name in set(names) & set(ready_names()):
        shutil.copy(find_bundle(name), folder / f"{name}.auricle")
    run_python("-m", "benchmarks.parity.reference", str(folder), str(steps), str(batch), *names)


if __name__ == "__main__":
    references()
    larger_references()
