"""Other packages as detectors, each in an environment of its own; these modules need nothing of this project."""
