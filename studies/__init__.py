"""The papers' tables on real data: `python -m studies` runs them all and writes docs/results.md.

A module is a table: its ``runs(scale)`` says what to run, its ``section(results)`` writes what came out, with the
published figures beside ours.
"""
