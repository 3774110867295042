"""The life of a round, from its opening to the devices' work and its result."""
