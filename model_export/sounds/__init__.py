"""The front end for everyday sounds: EfficientAT mn04, a network that heard AudioSet."""
