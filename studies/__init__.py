"""The papers' studies on real recordings: `python -m studies` runs them and writes docs/studies.

A folder is a study: `runs.py` says what is run and which tables and pictures come of it, `results.json` is what was
measured, and `text.md` is what a person wrote beside it.
"""
