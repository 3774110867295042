"""The server that combines what devices learned about sounds, without their audio.

Everywhere in it, ``now`` is seconds since 1970 by the wall clock, ``store`` and ``tables`` are the fleet's, ``by`` says
who asks for a change, and a function that takes a session leaves its transaction to the caller.
"""
