"""FedMLAC (Bai et al. 2025)."""

from __future__ import annotations

from fleet_protocol.local_method import MethodTerms
from fleet_protocol.local_methods.settings import SHARED_MODEL
from fleet_protocol.setting import Setting

_SETTINGS: dict[str, Setting] = {
    "own_share": Setting(0.5, "a, the labels' share in the own model's loss; the rest is the plug-in's", 0.0, 1.0),
    "warm_up": Setting(30, "passes of the own model over the clips before the device's first round", 0, 10_000),
    "warm_up_rate": Setting(0.05, "learning rate of these passes", 1e-8, 10.0),
}

METHOD = MethodTerms("fedmlac", SHARED_MODEL | _SETTINGS, any_architecture=True)
