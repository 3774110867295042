"""Every bound on what others may send to the aggregator. docs/security.md, "Bounds", gives the reasons.

A bound is checked before anything is allocated, read or parsed for what it bounds.
"""

from __future__ import annotations

from fleet_protocol.bounded_json import JsonBounds
from fleet_protocol.tensors import TensorBounds

# Bodies, in bytes.
MESSAGE_BYTES = 2**20
UPDATE_BYTES = 64 * 2**20
PUBLIC_SET_BYTES = 512 * 2**20
MODEL_BYTES = 64 * 2**20

# What is parsed.
MESSAGE = JsonBounds(size=MESSAGE_BYTES, values=2**14, depth=16)
UPDATE = TensorBounds(
    header=JsonBounds(size=2**20, values=2**15, depth=4),
    document=JsonBounds(size=2**19, values=2**15, depth=8),
    arrays=1_024,
)

# What messages and documents hold.
NAME_LENGTH = 200
LABELS = 4_096
METRICS = 200
CLIPS = 2**31  # a device has fewer
REPORTS = 256  # of new sounds in one upload: class discovery takes memory by the square of the reports
SLOTS = 65_536
