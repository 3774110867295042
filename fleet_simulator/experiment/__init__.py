"""Experiment files: what they say, checked in full before anything runs."""
