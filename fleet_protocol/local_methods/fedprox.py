"""FedProx (Li et al. 2020)."""

from __future__ import annotations

from fleet_protocol.local_method import MethodTerms
from fleet_protocol.local_methods.settings import SHARED_MODEL
from fleet_protocol.setting import Setting

METHOD = MethodTerms(
    "fedprox", SHARED_MODEL | {"proximal": Setting(0.01, "mu of the proximal term", 0.0, 1e3, main=True)}
)
