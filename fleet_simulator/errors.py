"""The exceptions of the simulator.

AuricleError
└── SimulationError        root of what goes wrong in a simulation
    ├── ExperimentError    an experiment file that cannot be used
    ├── CorpusError        data that is missing or cannot be dealt out to the devices
    ├── RunFolderError     a folder that holds another experiment's run, or a damaged one
    └── WorkerError        a process that trains devices failed
"""

from __future__ import annotations

from fleet_protocol.errors import AuricleError


class SimulationError(AuricleError):
    """Root of what goes wrong in a simulation."""


class ExperimentError(SimulationError):
    """An experiment file cannot be used."""


class CorpusError(SimulationError):
    """Data is missing, or cannot be dealt out to the devices."""


class RunFolderError(SimulationError):
    """A folder holds another experiment's run, or a damaged one."""


class WorkerError(SimulationError):
    """A process that trains devices failed."""
