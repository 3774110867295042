"""The tables of the first release, as store/tables.py makes them."""

revision = "1"
down_revision = None
