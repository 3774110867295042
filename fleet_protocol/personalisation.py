"""The ways in which a round's result becomes a model of each device's own, and their settings (docs/methods.md)."""

from __future__ import annotations

from collections.abc import Mapping

from fleet_protocol.setting import Setting, Settings

# Without `labels` and at a rate of 0.005 it is the published fine-tuning.
_FINE_TUNING: dict[str, Setting] = {
    "epochs": Setting(10, "passes of the local fine-tuning over the device's clips", 1, 10_000),
    "labels": Setting(True, "pass over as many public samples by their labels beside the clips; false: clips alone"),
    "learning_rate": Setting(0.02, "of the local fine-tuning", 1e-8, 10.0),
    "momentum": Setting(0.9, "of the local fine-tuning", 0.0, 0.9999),
    "held_out": Setting(0.2, "share of the device's clips that it never trains on and judges its models by", 0.01, 0.5),
}
# Xu et al. 2025, algorithm 1: three groups, five rounds; the largest devices' group may do without.
_GROUPS: dict[str, Setting] = {
    "groups": Setting(3, "groups of devices with about equally many clips", 1, 100),
    "most_rounds": Setting(5, "rounds within the group of the smallest devices", 0, 1_000),
    "least_rounds": Setting(0, "rounds within the group of the largest devices; the others lie between", 0, 1_000),
}
PERSONALISATION: Mapping[str, Settings] = {
    "none": {},
    "local": _FINE_TUNING,
    "group_balanced": _GROUPS | _FINE_TUNING,
}
