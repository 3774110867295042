"""Care for a data folder: copies of it, their return, and what is damaged."""
