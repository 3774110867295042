"""A model as one file, its labels and its features."""
