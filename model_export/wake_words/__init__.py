"""Taught words as classifiers for other programs that wait for a word."""
