"""Simulates the strategies that share a model."""
