"""The storage of the fleet's state: tables for what changes, content-addressed blobs for arrays.

docs/architecture.md, "A round is rows in a database", says why. `opening.py` opens them.
"""
