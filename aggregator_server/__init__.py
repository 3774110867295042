"""The server that combines what devices learned, without their audio."""
