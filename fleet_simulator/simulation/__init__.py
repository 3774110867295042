"""The simulated federation: one loop over virtual devices and the aggregator's own functions, for every strategy."""
