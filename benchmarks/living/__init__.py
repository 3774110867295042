"""Living: what a taught device makes of the room that it listens to for a week, without any answer of its owner."""
