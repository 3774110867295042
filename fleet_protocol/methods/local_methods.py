"""What both sides know of a local method: its name and settings. How a device trains is the device's own matter.

The aggregator fills in every setting, so that a device reads all of them from its plan (docs/methods.md).
"""

from dataclasses import KW_ONLY, dataclass

from fleet_protocol.methods.registry import Registry, discover
from fleet_protocol.methods.setting import Setting, Settings


@dataclass(frozen=True)
class MethodTerms:
    """A local method, as a plan can name it."""

    name: str
    settings: Settings  # Settings that a plan can give it
    _: KW_ONLY
    any_architecture: bool = False  # Whether the network of a device that follows it may differ from the shared model's
    summed: bool = False  # Whether a private round can sum what its devices send


def local_methods() -> Registry[MethodTerms]:
    """Return the local methods by name. Raises PluginError: an installed package's method cannot be used."""
    return discover("METHOD", "auricle.local_methods", MethodTerms, table=METHODS)


# Time shift and background noise as in FedKWS-UI (Li et al. 2022, section 5).
CLIPS: dict[str, Setting] = {
    "augmented_copies": Setting(4, "variants of every clip, shifted in time and noisy", 0, 100),
    "shift_s": Setting(0.1, "largest time shift of a variant, in seconds", 0.0, 1.0),
    "noise_volume": Setting(0.1, "volume of the background noise in a variant", 0.0, 10.0),
    "noise_probability": Setting(0.8, "share of the variants that get background noise", 0.0, 1.0),
}

# Gudur & Perepu 2021 leave these open; the defaults are those that made impressions of the same class from different
# architectures agree (small random start, small L2 pull, Dirichlet scale 0.3).
NEW_SOUNDS: dict[str, Setting] = {
    "impressions": Setting(32, "data impressions synthesised for each class", 1, 4_096),
    "impression_steps": Setting(150, "Adam steps of the synthesis", 1, 100_000),
    "impression_rate": Setting(0.05, "Adam's learning rate in the synthesis", 1e-8, 10.0),
    "impression_l2": Setting(0.1, "pull of the impressions towards the mean features", 0.0, 100.0),
    "impression_scale": Setting(0.3, "factor on the Dirichlet concentrations", 1e-6, 1e6),
    "impression_start": Setting(0.1, "standard deviation of the random start, in normalised features", 0.0, 100.0),
    "temperature": Setting(1.0, "of the softmax in the synthesis", 1e-3, 1e3),
}

_TRAINING: dict[str, Setting] = {
    "epochs": Setting(8, "passes over the round's clips", 1, 10_000),
    "steps": Setting(0, "steps that every device takes, however many its clips; 0: the epochs", 0, 100_000),
    "learning_rate": Setting(0.02, "of the local training", 1e-8, 10.0),
    "momentum": Setting(0.9, "of the local training", 0.0, 0.9999),
    "restrict": Setting(
        True, "leave outputs alone for which neither clips nor public samples speak; false: push them down"
    ),
    "rehearsal": Setting(1.0, "weight of a step on the public set after every step on clips; 0: none", 0.0, 100.0),
    "rehearsal_by": Setting(
        "labels",
        "what public recordings are rehearsed by: their labels, or the fleet model's own opinion",
        options=("labels", "opinion"),
    ),
}

# What every method has that trains the shared model: they differ in their targets, and in settings of their own.
SHARED_MODEL: dict[str, Setting] = _TRAINING | CLIPS | NEW_SOUNDS

# FedAvg (McMahan et al. 2017): nothing but what every method has that trains the shared model.
FEDAVG = MethodTerms("fedavg", SHARED_MODEL, summed=True)

_FEDKWS_UI: dict[str, Setting] = {
    "steps": Setting(50, "E, steps that a device takes on average; they replace the epochs", 1, 100_000),
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
_WITHOUT_EPOCHS = {name: setting for name, setting in SHARED_MODEL.items() if name != "epochs"}
FEDKWS_UI = MethodTerms("fedkws_ui", _WITHOUT_EPOCHS | _FEDKWS_UI)  # Li et al. 2022

_FEDMLAC: dict[str, Setting] = {
    "own_share": Setting(0.5, "a, the labels' share in the own model's loss; the rest is the plug-in's", 0.0, 1.0),
    "warm_up": Setting(30, "passes of the own model over the clips before the device's first round", 0, 10_000),
    "warm_up_rate": Setting(0.05, "learning rate of these passes", 1e-8, 10.0),
}
FEDMLAC = MethodTerms("fedmlac", SHARED_MODEL | _FEDMLAC, any_architecture=True, summed=True)  # Bai et al. 2025

# Yao et al. 2018
_FEDMMD: dict[str, Setting] = {"discrepancy": Setting(0.01, "lambda of the discrepancy", 0.0, 1e3)}
FEDMMD = MethodTerms("fedmmd", SHARED_MODEL | _FEDMMD, summed=True)

# Li et al. 2020
_FEDPROX: dict[str, Setting] = {"proximal": Setting(0.01, "mu of the proximal term", 0.0, 1e3)}
FEDPROX = MethodTerms("fedprox", SHARED_MODEL | _FEDPROX, summed=True)

# Nothing to set on the device (docs/methods.md, "Prototypes").
PROTOTYPES = MethodTerms("prototypes", {}, summed=True)

_ZERO_SHOT: dict[str, Setting] = {
    "epochs": Setting(16, "passes over the round's clips", 1, 10_000),
    "learning_rate": Setting(0.02, "of the local training", 1e-8, 10.0),
    "momentum": Setting(0.9, "of the local training and the distillation", 0.0, 0.9999),
    "labels": Setting(
        True, "train on the public set's labels in every pass; false: on the fleet's scores of it, after the round"
    ),
    "distill_epochs": Setting(2, "passes over the public set after the round; 0: to the letter", 0, 10_000),
    "score_temperature": Setting(4.0, "of the softmax of the scores, and of the distillation", 1e-3, 1e3),
    "distill_learning_rate": Setting(0.003, "of the distillation", 1e-8, 10.0),
}
ZERO_SHOT = MethodTerms("zero_shot", _ZERO_SHOT | CLIPS | NEW_SOUNDS, summed=True)  # Gudur & Perepu 2021

METHODS = (FEDAVG, FEDKWS_UI, FEDMLAC, FEDMMD, FEDPROX, PROTOTYPES, ZERO_SHOT)
