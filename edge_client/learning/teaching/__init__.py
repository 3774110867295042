"""Learning what the owner taught, offline."""
