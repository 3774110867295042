"""Which device gets which clips."""
