"""What a device computes in a round, one file for each method (fleet_protocol/local_methods.py)."""
