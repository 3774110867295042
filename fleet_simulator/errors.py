"""The exceptions of the simulator."""

from __future__ import annotations

from fleet_protocol.errors import AuricleError
from fleet_protocol.ground.toml_sections import RefusedValue


class SimulationError(AuricleError):
    """Root of what goes wrong in a simulation."""


class ExperimentError(SimulationError):
    """An experiment file cannot be used."""


class RefusedKeyError(RefusedValue, ExperimentError):
    """A value is outside what a key allows."""


def require(allowed: bool, key: str, value: object, rule: str) -> None:
    """Refuse a value by its key unless it is allowed. Raises RefusedKeyError: it is not."""
    if not allowed:
        raise RefusedKeyError(key, value, rule)


class CorpusError(SimulationError):
    """Data is missing, or cannot be dealt out to the devices."""


class RunFolderError(SimulationError):
    """A folder holds another experiment's run, or a damaged one."""


class WorkerError(SimulationError):
    """A process that trains devices failed."""


class DivergedError(WorkerError):
    """A device's training came to weights or a loss that are no numbers."""
