"""Monotone alignment of the sentences of two documents: arrays in, alignments out."""
