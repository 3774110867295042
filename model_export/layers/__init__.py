"""Keras layers that train on a device, of TensorFlow Lite's built-in operators."""
