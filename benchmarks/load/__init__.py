"""How an aggregator bears a fleet that does everything at once: ``python -m benchmarks.load``."""
