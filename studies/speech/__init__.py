"""Speech recognition by CTC among devices of unequal data, Xu et al. 2025."""
