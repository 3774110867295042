"""Many virtual devices on one desk, running the very code of device and aggregator."""
