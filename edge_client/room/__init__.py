"""What a device remembers of the room that it listens in, as embeddings alone, and what follows from it."""
