"""Vectors, scores and neighbours of words, from finished checkpoints."""
