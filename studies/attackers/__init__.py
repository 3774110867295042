"""Attackers, and the rules that hold against them."""
