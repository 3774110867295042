"""Which devices take part in a round."""
