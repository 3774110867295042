"""Google's speech embedding (Lin et al. 2020), rewritten as a streaming graph."""
