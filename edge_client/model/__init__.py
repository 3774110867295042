"""The model on the device: a TensorFlow Lite graph that predicts, embeds and trains."""
