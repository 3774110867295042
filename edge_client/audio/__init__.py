"""Sound that is stored: recordings on disk, wave files, resampling and level."""
