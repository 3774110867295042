"""Which devices take part in a round: one file for each method."""
