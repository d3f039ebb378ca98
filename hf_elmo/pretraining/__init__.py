"""Pre-training of the biLM and fine-tuning on tasks."""
