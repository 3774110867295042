"""The bounds of what the aggregator takes and does, in one place; docs/security.md gives the reasons."""

from __future__ import annotations

# A result takes seconds. Whatever takes an hour would hold up every round after it.
COMPUTATION_S = 3600.0
# So often may the process that computes a round's result die before the round fails.
COMPUTATION_DEATHS = 3

# Below this share of the disk no upload, public set or model is taken in: results and the database need the rest.
LEAST_FREE_SHARE = 0.05

# Uploads that were screened or refused, less those that counted since, at which a device is put in quarantine.
SUSPICION = 3
