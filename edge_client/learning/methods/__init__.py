"""What a device computes in a round, one file for each method (fleet_protocol/methods/local_methods.py)."""
