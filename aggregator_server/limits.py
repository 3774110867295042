"""How much a device, a round and a fleet may ask of the aggregator. docs/security.md says why."""

from __future__ import annotations

# Class discovery compares every description of a round with every other one.
MAX_REPORTS_PER_ROUND = 256
"""New sounds that one round looks at; of the others nothing is lost, because devices report them again."""
MAX_REFERENCES_PER_ROUND = 512
"""Descriptions of known classes that one round compares the new sounds with."""
MAX_IMPRESSIONS = 4_096
"""Data impressions of one class in an upload: the largest value of the setting ``impressions``."""
MAX_CLASSES_BY_ONE_DEVICE = 8
"""New classes of one round that the same device alone reports; the others are made in later rounds."""
MAX_CLASSES = 256
"""Classes of a fleet, those that wait for an operator included. A published public set may have more."""
KEPT_UPLOAD_BYTES = 2**29
"""Bytes of the last round's uploads that are kept after it; of a round with more none are."""
MAX_LABEL_ENTROPY = 20.0
"""Largest entropy of a device's labels, in nats: that of 485 million labels of one clip each."""
MAX_STEP_FACTOR = 1e6
"""Largest value of the setting ``step_factor``, which the aggregator fills in from what devices reported."""
