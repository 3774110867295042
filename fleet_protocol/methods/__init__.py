"""The settings of methods, which both sides know, and the registry that finds methods."""
