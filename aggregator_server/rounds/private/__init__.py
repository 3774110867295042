"""Private rounds: the server learns sums of groups, and no device's own numbers (docs/private-rounds.md)."""
