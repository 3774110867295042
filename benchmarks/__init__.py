"""Measurements: `python -m benchmarks.NAME [--json]`."""
