"""Instructions that training and inference take on ARMv7: exact and repeatable, where emulated seconds say nothing."""
