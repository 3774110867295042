"""The papers' studies on real recordings: `python -m studies` runs them.

A folder is a study: `runs.py` says what is run and which tables and pictures come of it, and `results.json` is what was
measured. docs/studies has its page: what a person wrote, and between comments the tables and pictures.
"""
