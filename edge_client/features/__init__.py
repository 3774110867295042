"""Front ends: from samples to what a network sees, float32 [frames, numbers per frame]."""
