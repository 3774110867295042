"""Corpora: recordings and features from which a simulated fleet draws its clips."""
