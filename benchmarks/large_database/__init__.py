"""How fast a server answers whose database is large: ``python -m benchmarks.large_database``."""
