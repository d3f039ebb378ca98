"""Pre-training of the biLM."""
