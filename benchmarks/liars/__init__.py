"""What liars in a fleet of ten do to the others."""
