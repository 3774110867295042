"""The settings of the local methods: what a device can be asked to do with its clips, and how (docs/methods.md)."""

from __future__ import annotations

from fleet_protocol.setting import Setting

# Time shift and background noise as in FedKWS-UI (Li et al. 2022, section 5).
_CLIPS: dict[str, Setting] = {
    "augmented_copies": Setting(4, "variants of every clip, shifted in time and noisy", 0, 100),
    "shift_s": Setting(0.1, "largest time shift of a variant, in seconds", 0.0, 1.0),
    "noise_volume": Setting(0.1, "volume of the background noise in a variant", 0.0, 10.0),
    "noise_probability": Setting(0.8, "share of the variants that get background noise", 0.0, 1.0),
}

# Gudur & Perepu 2021 leave these open; the defaults are those that made impressions of the same class from different
# architectures agree (small random start, small L2 pull, Dirichlet scale 0.3).
_NEW_SOUNDS: dict[str, Setting] = {
    "impressions": Setting(32, "data impressions synthesised for each class", 1, 4_096),
    "impression_steps": Setting(150, "Adam steps of the synthesis", 1, 100_000),
    "impression_rate": Setting(0.05, "Adam's learning rate in the synthesis", 1e-8, 10.0),
    "impression_l2": Setting(0.1, "pull of the impressions towards the mean features", 0.0, 100.0),
    "impression_scale": Setting(0.3, "factor on the Dirichlet concentrations", 1e-6, 1e6),
    "impression_start": Setting(0.1, "standard deviation of the random start, in normalised features", 0.0, 100.0),
    "temperature": Setting(1.0, "of the softmax in the synthesis", 1e-3, 1e3),
}

_ZERO_SHOT: dict[str, Setting] = {
    "epochs": Setting(16, "passes over the round's clips", 1, 10_000),
    "learning_rate": Setting(0.02, "of the local training", 1e-8, 10.0),
    "momentum": Setting(0.9, "of the local training and the distillation", 0.0, 0.9999),
    "distill_epochs": Setting(2, "passes over the public set towards the consensus; 0: to the letter", 0, 10_000),
    "score_temperature": Setting(4.0, "of the softmax of the scores, and of the distillation", 1e-3, 1e3),
    "distill_learning_rate": Setting(0.003, "of the distillation", 1e-8, 10.0),
}

# What every method shares that sends weights: they differ in their targets, and in what stands below.
_SHARED_MODEL: dict[str, Setting] = {
    "epochs": Setting(8, "passes over the round's clips", 1, 10_000),
    "steps": Setting(0, "steps that every device takes, however many its clips; 0: the epochs", 0, 100_000),
    "learning_rate": Setting(0.02, "of the local training", 1e-8, 10.0),
    "momentum": Setting(0.9, "of the local training", 0.0, 0.9999),
    "restrict": Setting(True, "leave outputs alone for which neither clips nor public samples speak; false: push them "
                              "down"),
    "rehearsal": Setting(1.0, "weight of the fleet model's own opinion on the public set, that the device shall keep; "
                              "0: none", 0.0, 100.0),
}  # fmt: skip

_USER_INVARIANT: dict[str, Setting] = _SHARED_MODEL | {
    "steps": Setting(50, "E, steps that a device takes on average; they replace the epochs", 1, 100_000),
    "adaptive": Setting(True, "take r_0 r E steps, by number and evenness of the device's clips; false: E"),
    "most_clips": Setting(0, "max n_k, the fleet's; 0: what its devices told the aggregator", 0, 2**31),
    "step_factor": Setting(0.0, "r_0, so that all together take K E steps; 0: from what they told", 0.0, 1e6),
    "smoothing": Setting(0.2, "mu of the label smoothing", 0.0, 1.0),
    "adversarial": Setting(0.001, "lambda of the negative distillation", 0.0, 1.0),
    "private_epochs": Setting(16, "passes of the private model over the round's clips, at most: it stops once it "
                                  "overfits", 0, 10_000),
}  # fmt: skip
del _USER_INVARIANT["epochs"]

_OWN: dict[str, dict[str, Setting]] = {
    "zero_shot": _ZERO_SHOT,
    "fedavg": _SHARED_MODEL,
    "fedprox": _SHARED_MODEL | {"proximal": Setting(0.01, "mu of the proximal term", 0.0, 1e3)},
    "fedmmd": _SHARED_MODEL | {"discrepancy": Setting(0.01, "lambda of the discrepancy", 0.0, 1e3)},
    "mutual": _SHARED_MODEL | {
        "own_share": Setting(0.5, "a, the labels' share in the own model's loss; the rest is the plug-in's", 0.0, 1.0),
    },
    "user_invariant": _USER_INVARIANT,
}  # fmt: skip
LOCAL: dict[str, dict[str, Setting]] = {name: own | _CLIPS | _NEW_SOUNDS for name, own in _OWN.items()}
