"""The exceptions of model building."""

from __future__ import annotations

from fleet_protocol.errors import AuricleError


class ExportError(AuricleError):
    """A model cannot be built as asked."""


class OperatorError(ExportError):
    """A converted graph needs operators that a device's runtime lacks."""


class CorpusError(ExportError):
    """A corpus cannot be read, or does not hold what a pretraining needs."""
