"""Corpora, vocabularies, lanes and annotated columns: everything between files and batches."""
