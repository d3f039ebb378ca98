"""A checkpoint as a static web page that computes in the reader's browser."""
