"""The owner's clips: where they are kept, recorded, checked, imported and named."""
