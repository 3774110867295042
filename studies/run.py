"""One run of a study: an experiment of the simulator or a function, with a seed; and what is kept of it on the disk.

A run's file is named after a digest of all that decides its result, the code among it, so that studies can share runs,
a killed command goes on where it stopped, and a stale result is never taken for a new one.
"""

from __future__ import annotations

import ast
import hashlib
import importlib.util
import json
import os
import platform
import re
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, cast

from benchmarks.command import ROOT
from edge_client.model.interpreter import installed_runtime
from fleet_protocol.ground.atomic_files import write_durably
from fleet_simulator.experiment.sections import Experiment
from studies.fleets import simulated

LEARNING = (
    "aggregator_server/aggregation",
    "aggregator_server/discovery",
    "aggregator_server/rounds/computation.py",
    "aggregator_server/strategies",
    "edge_client/features",
    "edge_client/learning",
    "edge_client/model",
    "fleet_protocol",
    "fleet_simulator",
)
"""Files and folders that count for every run."""
_FOLLOWED = ("studies",)  # whose modules are followed from one import to the next


@cache
def code_of(module: str) -> str:
    """Return a digest of :data:`LEARNING`, and of a module with all that it imports of the studies.

    Comments, docstrings and the form of the text do not count.
    """
    digest = hashlib.sha256(_learning().encode())
    for name, path in sorted(_sources(module).items()):
        digest.update(f"{name}\0{meaning(path)}".encode())
    return digest.hexdigest()


@cache
def _learning() -> str:
    digest = hashlib.sha256()
    for name in LEARNING:
        path = ROOT / name
        for source in [path] if path.is_file() else sorted(path.rglob("*.py")):
            digest.update(f"{source.relative_to(ROOT).as_posix()}\0{meaning(source)}".encode())
    return digest.hexdigest()


def meaning(path: Path) -> str:
    """Return a module's syntax tree as text, without docstrings."""
    tree = ast.parse(path.read_bytes())
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            node.body = [
                one
                for one in node.body
                if not (
                    isinstance(one, ast.Expr)
                    and isinstance(one.value, ast.Constant)
                    and isinstance(one.value.value, str)
                )
            ]
    return ast.dump(tree)


def _sources(module: str) -> dict[str, Path]:
    found: dict[str, Path] = {}
    left = [module]
    while left:
        name = left.pop()
        path = None if name in found else _file(name)
        if path is not None:
            found[name] = path
            left += [other for other in _imports(path) if other.split(".")[0] in _FOLLOWED]
    return found


def _file(module: str) -> Path | None:
    """Return a module's source; None for what is no module, such as a function that is imported from one."""
    try:
        spec = importlib.util.find_spec(module)
    except ModuleNotFoundError:
        return None
    return Path(spec.origin) if spec and spec.origin and spec.origin.endswith(".py") else None


def _imports(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_bytes())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


Figures = dict[str, Any]
_EXPERIMENTS = "studies.fleets"


@dataclass(frozen=True)
class Call:
    """A function to call with arguments; it and they must survive pickling."""

    # returns figures that JSON can hold. A module's own, so that another process finds it.
    function: Callable[..., Figures]
    # a path among them, or in a list, tuple or mapping among them, counts by its name, and a bundle by its content
    arguments: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Run:
    """One run."""

    name: str  # what it is a run of; runs of other seeds have the same name
    seed: int  # the seed that ``work`` was made with
    work: Experiment | Call  # what to do. An experiment's figures are those of :func:`studies.fleets.simulated`.
    cost_s: float = 30.0  # processor seconds that it takes, roughly; from these the time left is told
    # runs that name the same one share clips that a process keeps, and are done by one process in a row; by default an
    # experiment's ``[data]``
    corpus: str = ""

    @property
    def clips(self) -> str:
        """What names the clips that the run reads."""
        if self.corpus or isinstance(self.work, Call):
            return self.corpus
        data = self.work.data
        return f"{data} {self.work.model.bundle.name} {self.seed if data.seeded else ''}"

    @property
    def code(self) -> str:
        """Digest of the code that decides the result."""
        return code_of(_EXPERIMENTS if isinstance(self.work, Experiment) else self.work.function.__module__)

    @property
    def digest(self) -> str:
        """Of all that decides the result: code, settings, seed, bundles."""
        if isinstance(self.work, Experiment):
            text = f"{self.code} {self.work.digest} {self.work.rounds.count}"
        else:
            function = self.work.function
            what = [self.code, function.__module__, function.__qualname__, _plain(self.work.arguments), self.seed]
            text = json.dumps(what, sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:32]


def _plain(value: Any) -> Any:  # noqa: ANN401  (whatever arguments hold)
    """Return arguments as JSON has them, with a bundle's digest for its path."""
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, Path):
        return hashlib.sha256(value.read_bytes()).hexdigest() if value.suffix == ".auricle" else str(value)
    return value if isinstance(value, str | int | float | bool | None) else repr(value)


@dataclass(frozen=True)
class Outcome:
    """What is kept of a run."""

    figures: Figures  # what it found
    started: float  # when, in seconds since 1970
    seconds: float  # it took
    machine: dict[str, Any]  # where: ``processor``, ``cores``, ``system``, ``python``, ``runtime``


class RunFiles:
    """The outcomes in a folder, one file for each digest."""

    def __init__(self, output: Path) -> None:
        self.folder = output / "runs"

    def load(self, run: Run) -> Outcome | None:
        """Return a run's outcome; None where it is not there yet."""
        path = self._path(run)
        return Outcome(**json.loads(path.read_text(encoding="utf-8"))) if path.is_file() else None

    def save(self, run: Run, outcome: Outcome) -> None:
        """Put an outcome on the disk; after a power cut it is there whole, or not at all."""
        write_durably(self._path(run), (json.dumps(asdict(outcome), indent=1) + "\n").encode(), 0o644)

    def _path(self, run: Run) -> Path:
        return self.folder / f"{run.digest}.json"


def perform(run: Run, scratch: Path) -> Outcome:
    """Do a run in this process; an experiment's folder that was killed goes on after its last finished round."""
    started, clock = time.time(), time.perf_counter()
    if isinstance(run.work, Experiment):
        figures = simulated(run.work, scratch)
    else:
        figures = run.work.function(**run.work.arguments)
    figures = cast(Figures, json.loads(json.dumps(figures)))  # so that a wrong type shows here, not after an hour
    return Outcome(figures, started, time.perf_counter() - clock, _machine())


def _machine() -> dict[str, Any]:
    fields = dict(
        re.findall(r"(?m)^(vendor_id|model name)\s*: (.*)$", Path("/proc/cpuinfo").read_text(encoding="utf-8"))
    )
    return {
        "processor": " ".join(map(str, fields.values())) or platform.machine(),
        "cores": os.cpu_count(),
        "system": platform.freedesktop_os_release().get("PRETTY_NAME", platform.system()),
        "python": platform.python_version(),
        "runtime": installed_runtime() or "none",
    }
