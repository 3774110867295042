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
            0.0, "largest whitened distance of a prototype from the mean of the pretraining's words; 0: any", 0.0, 1e6
        ),
        "noise": Setting(0.0, "standard deviation of the noise on a whitened prototype's numbers; 0: none", 0.0, 1e6),
    },
)
