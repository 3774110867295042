"""The protocol from the side of who asks: a device, and an aggregator that is a device of another one."""
