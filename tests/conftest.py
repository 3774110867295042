"""Fixtures that several test modules share: model bundles, built once and kept under build/."""

import hashlib
import importlib.util
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest

pytest_plugins = ["fixtures_aggregator", "sound_server"]

ROOT = Path(__file__).resolve().parent.parent
ARCHITECTURES = ("cnn1", "cnn2", "cnn3", "cnn4", "dscnn3", "ann3", "crnn_tiny", "crnn_lite")


def sources_digest(*patterns: str) -> str:
    """Digest of source files, by which what was built from them is found again."""
    digest = hashlib.sha256()
    for path in sorted(path for pattern in patterns for path in ROOT.glob(pattern)):
        digest.update(path.relative_to(ROOT).as_posix().encode() + path.read_bytes())
    return digest.hexdigest()[:16]


def built(name: str, make: Callable[[Path], object]) -> Path:
    """Return the folder build/NAME-DIGEST, made by ``make`` unless it is there; safe against a second test run."""
    digest = sources_digest("model_export/*.py", "fleet_protocol/*.py", "tests/conftest.py", "benchmarks/parity/*.py")
    folder = ROOT / "build" / f"{name}-{digest}"
    if not folder.exists():
        folder.parent.mkdir(exist_ok=True)
        making = Path(tempfile.mkdtemp(dir=folder.parent, prefix=f".{name}-"))
        try:
            make(making)
            making.rename(folder)
        except OSError:
            if not folder.exists():  # else another run was faster
                raise
        finally:
            shutil.rmtree(making, ignore_errors=True)
    return folder


def run_python(*arguments: str, **environment: str) -> str:
    """Run a Python of its own in the repository's root and return what it printed."""
    quiet = {"TF_CPP_MIN_LOG_LEVEL": "3", "CUDA_VISIBLE_DEVICES": "-1"}
    result = subprocess.run(
        [sys.executable, *arguments],
        cwd=ROOT,
        env={**os.environ, **quiet, **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 0, f"{arguments} failed:\n{result.stdout[-2000:]}\n{result.stderr[-6000:]}"
    return result.stdout


def require_runtime(name: str) -> None:
    """Skip the test where there is no wheel of a TensorFlow Lite runtime, `tflite` or `litert`."""
    module = {"tflite": "tflite_runtime", "litert": "ai_edge_litert"}[name]
    if importlib.util.find_spec(module) is None:
        pytest.skip(f"{module} is not installed: it has no wheel for this Python and processor")


@pytest.fixture(scope="session")
def bundles() -> dict[str, Path]:
    """One bundle of every small architecture: features `gudur`, capacity 32, batch 32, default options."""
    folder = built(
        "bundles",
        lambda folder: run_python("-m", "model_export.cli", "build", *ARCHITECTURES, "-o", str(folder)),
    )
    return {name: folder / f"{name}.auricle" for name in ARCHITECTURES}
