"""Readers of annotated data, one file per form."""
