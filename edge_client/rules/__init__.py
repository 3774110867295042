"""Rules: what the owner wants done when something is heard, without another server."""
