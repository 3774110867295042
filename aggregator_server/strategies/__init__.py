"""Strategies: how devices train, who takes part, and what is made of their uploads."""
