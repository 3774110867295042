"""What the fleet has in common: devices, classes, public sets and shared models."""
