"""Builds the models: Keras networks exported as TFLite bundles that train on the device."""
