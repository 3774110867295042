"""The HTTP addresses. A handler checks who calls, calls the core, and wakes whoever waits for the change."""
