"""Settings that several local methods have in common (docs/methods.md)."""

from __future__ import annotations

from fleet_protocol.setting import Setting

# Time shift and background noise as in FedKWS-UI (Li et al. 2022, section 5).
CLIPS: dict[str, Setting] = {
    "augmented_copies": Setting(4, "variants of every clip, shifted in time and noisy", 0, 100, main=True),
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
    "epochs": Setting(8, "passes over the round's clips", 1, 10_000, main=True),
    "steps": Setting(0, "steps that every device takes, however many its clips; 0: the epochs", 0, 100_000),
    "learning_rate": Setting(0.02, "of the local training", 1e-8, 10.0, main=True),
    "momentum": Setting(0.9, "of the local training", 0.0, 0.9999),
    "restrict": Setting(
        True, "leave outputs alone for which neither clips nor public samples speak; false: push them down"
    ),
    "rehearsal": Setting(
        1.0, "weight of a step on the public set after every step on clips; 0: none", 0.0, 100.0, main=True
    ),
    "rehearsal_by": Setting(
        "labels",
        "what public recordings are rehearsed by: their labels, or the fleet model's own opinion",
        options=("labels", "opinion"),
    ),
}

# What every method has that trains the shared model: they differ in their targets, and in settings of their own.
SHARED_MODEL: dict[str, Setting] = _TRAINING | CLIPS | NEW_SOUNDS
