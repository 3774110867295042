"""The daemon: one process whose loops listen, learn what the owner teaches, and take part in rounds."""
