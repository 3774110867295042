"""`make demo`: fleets of three devices on one machine, on recordings or on a synthesised corpus."""

from __future__ import annotations

from fleet_protocol.errors import AuricleError


class DemoError(AuricleError):
    """The demonstration cannot be run on what it was given."""
