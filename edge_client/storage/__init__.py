"""What the device keeps between restarts: its state and the locks on it."""
