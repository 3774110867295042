"""A package of somebody's own, laid out as an installer would."""

from pathlib import Path

from tests.support.checkout import ROOT


def install_package(folder: Path, name: str, modules: dict[str, str], entry_points, monkeypatch) -> None:
    """Lay out a package: modules' sources, and entry points by group and name; processes that a test starts find it."""
    about = folder / f"{name}-1.0.dist-info"
    about.mkdir(parents=True)
    for module, source in modules.items():
        (folder / f"{module}.py").write_text(source)
    (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    sections = (
        f"[{group}]\n" + "".join(f"{key} = {value}\n" for key, value in named.items())
        for group, named in entry_points.items()
    )
    (about / "entry_points.txt").write_text("".join(sections))
    monkeypatch.setenv("PYTHONPATH", f"{folder}:{ROOT}")
