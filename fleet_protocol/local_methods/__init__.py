"""Settings of the local methods, one file each."""
