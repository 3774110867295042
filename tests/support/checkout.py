"""The checkout that is tested, what is built in it once, and processes of its Python."""

import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
DATA = Path(os.environ.get("AURICLE_DATA", ROOT.parent / "shared" / "data"))


def sources_digest(*patterns: str) -> str:
    """Digest of source files, by which what was built from them is found again."""
    digest = hashlib.sha256()
    for path in sorted(path for pattern in patterns for path in ROOT.glob(pattern)):
        digest.update(path.relative_to(ROOT).as_posix().encode() + path.read_bytes())
    return digest.hexdigest()[:16]


def built(name: str, make: Callable[[Path], object]) -> Path:
    """Return the folder build/NAME-DIGEST, made by ``make`` unless it is there; who comes meanwhile waits for it."""
    digest = sources_digest(
        "model_export/**/*.py",
        "model_export/*.json",
        "fleet_protocol/**/*.py",
        "tests/conftest.py",
        "tests/support/embedding_bundles.py",
        "edge_client/front_ends/*",
        "tests/support/checkout.py",
        "benchmarks/parity/*.py",
    )
    return kept(name, digest, make)


def kept(name: str, digest: str, make: Callable[[Path], object]) -> Path:
    """Return the folder build/NAME-DIGEST, made by ``make`` unless it is there; safe against a second test run."""
    folder = ROOT / "build" / f"{name}-{digest}"
    if folder.exists():  # in a tree that can only be read, too
        return folder
    folder.parent.mkdir(exist_ok=True)
    with (folder.parent / f".{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not folder.exists():
            making = Path(tempfile.mkdtemp(dir=folder.parent, prefix=f".{name}-"))
            try:
                make(making)
                making.rename(folder)
            finally:
                shutil.rmtree(making, ignore_errors=True)
    return folder


def run_module(module: str, *arguments: object, **options) -> subprocess.CompletedProcess[str]:
    """Run a module in a Python of its own, in the repository's root unless ``cwd`` says otherwise."""
    command = [sys.executable, "-m", module, *map(str, arguments)]
    given = {"cwd": ROOT, "capture_output": True, "text": True, "check": False, "timeout": 600} | options
    return subprocess.run(command, **given)


def run_python(*arguments: str, **environment: str) -> str:
    """Run a Python of its own in the repository's root and return what it printed."""
    own = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3", "CUDA_VISIBLE_DEVICES": "-1", **environment}
    given = {"cwd": ROOT, "env": own, "capture_output": True, "text": True, "check": False}
    result = subprocess.run([sys.executable, *arguments], **given)
    assert result.returncode == 0, f"{arguments} failed:\n{result.stdout[-2000:]}\n{result.stderr[-6000:]}"
    return result.stdout


def without_tensorflow(folder: Path, *others: str) -> dict[str, str]:
    """Return an environment in which no process can import TensorFlow, Keras and others; a folder hides them."""
    for name in ("tensorflow", "keras", *others):
        (folder / "absent").mkdir(exist_ok=True)
        (folder / "absent" / f"{name}.py").write_text(f"raise ImportError('{name} is not installed here')\n")
    path = os.pathsep.join([str(folder / "absent"), str(ROOT), os.environ.get("PYTHONPATH", "")])
    return {**os.environ, "PYTHONPATH": path}
