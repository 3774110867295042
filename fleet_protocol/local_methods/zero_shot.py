"""Zero-shot federated learning (Gudur & Perepu 2021)."""

from __future__ import annotations

from fleet_protocol.local_method import MethodTerms
from fleet_protocol.local_methods.settings import CLIPS, NEW_SOUNDS
from fleet_protocol.setting import Setting

_SETTINGS: dict[str, Setting] = {
    "epochs": Setting(16, "passes over the round's clips", 1, 10_000, main=True),
    "learning_rate": Setting(0.02, "of the local training", 1e-8, 10.0, main=True),
    "momentum": Setting(0.9, "of the local training and the distillation", 0.0, 0.9999),
    "labels": Setting(
        True,
        "train on the public set's labels in every pass; false: on the fleet's scores of it, after the round",
        main=True,
    ),
    "distill_epochs": Setting(2, "passes over the public set after the round; 0: to the letter", 0, 10_000),
    "score_temperature": Setting(4.0, "of the softmax of the scores, and of the distillation", 1e-3, 1e3),
    "distill_learning_rate": Setting(0.003, "of the distillation", 1e-8, 10.0),
}

METHOD = MethodTerms("zero_shot", _SETTINGS | CLIPS | NEW_SOUNDS)
