"""Rounds as people see them."""
