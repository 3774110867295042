"""What a device makes of a round's result, one file for each (fleet_protocol/personalisations.py)."""
