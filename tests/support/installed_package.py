"""A package of somebody's own, laid out as an installer would."""

from pathlib import Path

from tests.support.checkout import ROOT


def install_package(folder: Path, module: str, source: str, group: str, entry: str, monkeypatch) -> None:
    """Lay out a package of one module with one entry point; processes that a test starts find it."""
    about = folder / f"{module}-1.0.dist-info"
    about.mkdir(parents=True)
    (folder / f"{module}.py").write_text(source)
    (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {module.replace('_', '-')}\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text(f"[{group}]\n{entry}\n")
    monkeypatch.setenv("PYTHONPATH", f"{folder}:{ROOT}")
