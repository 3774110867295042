"""Zero-shot federated learning with new classes, Gudur & Perepu 2021."""
