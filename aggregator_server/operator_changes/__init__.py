"""What an operator changes and undoes: classes and rounds. Each operation is a round that is done, without devices.

Its result is what the fleet goes on from, so devices follow it as they follow any round, and the guard judges it.
"""
