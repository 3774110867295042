"""How large the studies' runs are, where their data is, and the bundles that they train."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.bundles import ROOT, BenchmarkError, build_bundles, data_folder


@dataclass(frozen=True)
class Scale:
    """What a study's ``runs`` is told.

    Attributes:
        full: whether to come near to the papers' sizes; else a study ends in under an hour on two cores.
        output: folder of runs and bundles.
    """

    full: bool
    output: Path

    @property
    def name(self) -> str:
        """``full`` or ``small``."""
        return "full" if self.full else "small"

    def data(self, name: str) -> Path:
        """Return a file or folder of the real audio.

        Raises:
            BenchmarkError: it is not there.
        """
        folder = data_folder()
        if not (folder / name).exists():
            raise BenchmarkError(
                f"there is no {name} in {folder}; let AURICLE_DATA name the folder that holds the recordings"
            )
        return folder / name

    def bundles(self, architectures: Sequence[str], *options: str) -> dict[str, Path]:
        """Return bundles by their architectures, built with options of `auricle-export build` unless they are there.

        Raises:
            BenchmarkError: with what `auricle-export` said.
        """
        digest = hashlib.sha256("\0".join(options).encode())
        for source in sorted((ROOT / "model_export").rglob("*.py")):
            digest.update(source.read_bytes())
        folder = self.output / "bundles" / digest.hexdigest()[:16]
        bundles = {name: folder / f"{name}.auricle" for name in architectures}
        if missing := [name for name, path in bundles.items() if not path.is_file()]:
            build_bundles(folder, missing, *options)
        return bundles
