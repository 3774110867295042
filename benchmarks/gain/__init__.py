"""What a device gains by taking part, judged by the model that it listens with (`python -m benchmarks.gain`)."""
