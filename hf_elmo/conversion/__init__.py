"""Readers and writers of other programs' ELMo checkpoints, one module a format."""
