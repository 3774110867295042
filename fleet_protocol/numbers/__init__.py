"""The arrays on the wire, and what both sides compute from embeddings."""
