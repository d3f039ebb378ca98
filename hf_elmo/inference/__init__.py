"""Vectors, scores and neighbors of words, from finished checkpoints."""
