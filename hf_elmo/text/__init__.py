"""Corpora, vocabularies, spelling, word vectors and columns: everything between files and batches."""
