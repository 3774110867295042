"""Simulates zero-shot federated learning with new classes."""
