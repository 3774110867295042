"""How a device describes a sound that the fleet does not know."""
