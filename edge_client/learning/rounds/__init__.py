"""The device's part in a round: train and upload, then apply the round's result."""
