"""FedKWS-UI (Li et al. 2022)."""

from __future__ import annotations

from fleet_protocol.local_method import MethodTerms
from fleet_protocol.local_methods.settings import SHARED_MODEL
from fleet_protocol.setting import Setting

_SETTINGS: dict[str, Setting] = {
    "steps": Setting(50, "E, steps that a device takes on average; they replace the epochs", 1, 100_000, main=True),
    "adaptive": Setting(True, "take r_0 r E steps, by number and evenness of the device's clips; false: E"),
    "most_clips": Setting(0, "max n_k, the fleet's; 0: what its devices reported", 0, 2**31),
    "step_factor": Setting(0.0, "r_0, so that all together take K E steps; 0: from these reports", 0.0, 1e6),
    "smoothing": Setting(0.2, "mu of the label smoothing", 0.0, 1.0),
    "adversarial": Setting(0.001, "lambda of the negative distillation", 0.0, 1.0),
    "private_epochs": Setting(
        16, "passes of the private model over the round's clips, at most: it stops once it overfits", 0, 10_000
    ),
}
# Its steps are counted over the fleet, so no device counts epochs.
_TRAINING = {name: setting for name, setting in SHARED_MODEL.items() if name != "epochs"}

METHOD = MethodTerms("fedkws_ui", _TRAINING | _SETTINGS)
