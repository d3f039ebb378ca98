"""A checkpoint as files: loading, writing aside, provenance, cards, plots and sharing."""
