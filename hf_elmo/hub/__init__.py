"""A checkpoint as files: loading, writing, provenance, cards, plots and uploads."""
