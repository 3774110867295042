"""`make demo`: fleets of three devices on one machine, on recordings or on a synthesised corpus."""

from __future__ import annotations

from fleet_protocol.errors import AuricleError

# A device's one thread is the runtime's; BLAS threads would only take the other devices' cores.
ONE_THREAD = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}


class DemoError(AuricleError):
    """The demonstration cannot be run on what it was given."""
