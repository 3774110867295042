"""Taught words for a voice assistant."""
