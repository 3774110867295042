"""Parity: how closely a bundle on a device trains as a stock Keras model does."""
