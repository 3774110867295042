"""Sums of secret vectors, after Bonawitz et al. 2017 and Bell et al. 2020 (docs/private-rounds.md): pure functions."""
