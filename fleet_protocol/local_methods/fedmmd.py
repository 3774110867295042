"""FedMMD (Yao et al. 2018)."""

from __future__ import annotations

from fleet_protocol.local_method import MethodTerms
from fleet_protocol.local_methods.settings import SHARED_MODEL
from fleet_protocol.setting import Setting

METHOD = MethodTerms("fedmmd", SHARED_MODEL | {"discrepancy": Setting(0.01, "lambda of the discrepancy", 0.0, 1e3)})
