"""The tables of version 3, from which every older data folder starts."""

revision = "3"
down_revision = None


def upgrade() -> None:
    """Change nothing: these tables were made by the release of version 3 itself."""
