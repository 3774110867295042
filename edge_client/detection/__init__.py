"""From features of a stream to events: detected sounds and unknown ones."""
