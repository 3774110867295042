"""Prototypes (docs/methods.md, "Prototypes"): nothing to set on the device."""

from __future__ import annotations

from fleet_protocol.local_method import MethodTerms

METHOD = MethodTerms("prototypes", {})
