"""Which parts earn their place in the recommended plan."""
