"""Trains the frozen network of a front end: from log-mel pictures of a second to an embedding."""
