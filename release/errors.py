"""What ends the building of a release."""


class ReleaseError(Exception):
    """A release cannot be built; the message says why and what helps."""
