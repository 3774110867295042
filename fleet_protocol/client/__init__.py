"""The protocol from the device's side."""
