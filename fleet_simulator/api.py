"""The simulator from Python: an experiment as a dict or a file in, the figures of its rounds out.

Names and meanings stay within a major version (docs/python.md).
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TextIO

from fleet_protocol.errors import AuricleError
from fleet_simulator.errors import ExperimentError
from fleet_simulator.experiment.file import load
from fleet_simulator.plugins import load_plugins
from fleet_simulator.runs.progress import Progress
from fleet_simulator.simulation.run import run as run_experiment

__all__ = ["AuricleError", "ExperimentError", "run"]


def run(
    experiment: Mapping[str, Any] | str | Path,
    folder: str | Path | None = None,
    *,
    plugins: Sequence[str | Path] = (),
    workers: int | None = 0,
    progress: TextIO | None = None,
) -> list[dict[str, Any]]:
    """Run an experiment, or what is left of it.

    Args:
        experiment: the sections of an experiment's file by name, ``{"rounds": {"count": 10}, ...}``; relative paths in
            it are relative to the working directory. Or the path of such a file.
        folder: of the run; None: the file's name without its suffix.
        plugins: files with a METHOD, RULE, SELECTION or STRATEGY that the rounds name.
        workers: processes that train devices; 0: this one; None: one for each core. A script that asks for some must
            begin below ``if __name__ == "__main__":``, because they import it.
        progress: where a line for each round goes, such as ``sys.stderr``.

    Returns:
        An entry for each round, such as ``round``, ``devices``, ``loss`` and, in rounds that were tested, ``accuracy``
        (0..1); docs/simulator.md names all. ``result.json`` in the folder has them too.

    Raises:
        ExperimentError: the experiment cannot be used; names the section, the key, the value and what is allowed.
        AuricleError: the data, a bundle, a plugin, the folder or a worker is at fault.
    """
    given = experiment if isinstance(experiment, Mapping) else Path(experiment)
    if folder is None:
        if isinstance(given, Mapping):
            raise ExperimentError("an experiment that is no file needs a folder: run(experiment, 'FOLDER')")
        folder = given.with_suffix("")
    loaded = load(given, plugins=load_plugins([Path(path) for path in plugins]))
    return run_experiment(loaded, Path(folder), workers, Progress(progress)).rounds
