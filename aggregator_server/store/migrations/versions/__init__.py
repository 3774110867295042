"""The changes, oldest first. A file names its revision and the one before it."""
