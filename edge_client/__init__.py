"""The daemon on the device: features, training, learning from the fleet. Light enough for a Raspberry Pi 2."""
