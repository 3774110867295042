"""What a device asks its owner: which sounds it is in doubt about, a few a day, and what he answered."""
