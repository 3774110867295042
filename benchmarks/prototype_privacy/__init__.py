"""What a mean of embeddings tells about the clips and the speakers in it, and what noise against that costs."""
