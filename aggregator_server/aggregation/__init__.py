"""Aggregation rules: pure functions from what devices uploaded to what the fleet knows, one file each."""
