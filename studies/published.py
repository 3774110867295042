"""The rules that papers published, by name: nobody is screened, and all clips count. The project's defaults differ."""

from __future__ import annotations

from fleet_protocol.setting import Value

MEAN: dict[str, Value] = {"name": "weighted_mean", "clips_cap": 0.0}
LPA: dict[str, Value] = {"name": "lpa", "clips_cap": 0.0}
