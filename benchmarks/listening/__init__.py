"""Listening: false accepts per hour and false rejects of words in noise, as in the literature on keyword spotting."""
