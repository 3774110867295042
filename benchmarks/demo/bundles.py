"""The devices' model bundles: built by `auricle-export` in a process of its own, kept until its sources change."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from types import TracebackType

from benchmarks.demo import DemoError

ROOT = Path(__file__).resolve().parent.parent.parent


class Bundles:
    """A context that builds in the background what is not there yet; TensorFlow stays out of this process."""

    def __init__(self, build: Path, architectures: tuple[str, ...]) -> None:
        """Nothing is started before the context is entered.

        Args:
            build: bundles are kept below this folder.
            architectures: by the names of `auricle-export`.
        """
        self._names = tuple(sorted(set(architectures)))
        self._folder = build / f"demo-bundles-{_digest(self._names)}"
        self._making: Path | None = None
        self._child: subprocess.Popen[str] | None = None

    def __enter__(self) -> Bundles:
        if not self._folder.is_dir():
            self._folder.parent.mkdir(parents=True, exist_ok=True)
            self._making = Path(tempfile.mkdtemp(dir=self._folder.parent, prefix=f".{self._folder.name}-"))
            command = [sys.executable, "-m", "model_export.cli", "build", *self._names, "-o", f"{self._making}/"]
            self._child = subprocess.Popen(
                command,
                cwd=ROOT,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                text=True,
                env={**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3", "CUDA_VISIBLE_DEVICES": "-1"},
            )
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._child is not None and self._child.poll() is None:
            self._child.terminate()
            self._child.communicate()
        if self._making is not None:
            shutil.rmtree(self._making, ignore_errors=True)

    def wait(self) -> dict[str, Path]:
        """Return the bundle of every architecture.

        Raises:
            DemoError: they could not be built.
        """
        if self._child is not None and self._making is not None:
            message = self._child.communicate()[1]
            if self._child.returncode:
                raise DemoError(f"the models could not be built (status {self._child.returncode}): {message[-2000:]}")
            if not self._folder.is_dir():
                self._making.rename(self._folder)
        return {name: self._folder / f"{name}.auricle" for name in self._names}


def _digest(names: tuple[str, ...]) -> str:
    digest = hashlib.sha256(" ".join(names).encode())
    for package in ("model_export", "fleet_protocol"):
        for path in sorted((ROOT / package).rglob("*.py")):
            digest.update(path.name.encode() + path.read_bytes())
    return digest.hexdigest()[:16]
