"""Prototypes: devices share mean embeddings, and each fits a head of its own (docs/methods.md, "Prototypes").

edge_client/learning/rounds/prototypes.py is the device's part of a round.
"""

from __future__ import annotations

from edge_client.learning.methods.local_method import PrototypeMethod
from fleet_protocol.setting import Setting

METHOD = PrototypeMethod(
    "prototypes",
    {
        "clip_norm": Setting(
            10.0,
            "where there is noise: to what whitened distance from the centre a clip's embedding is shortened",
            0.0,
            1e6,
            main=True,
        ),
        "noise": Setting(
            0.0, "of a prototype: its noise multiplier for one clip; 0: none (docs/privacy.md)", 0.0, 1e6, main=True
        ),
    },
)
