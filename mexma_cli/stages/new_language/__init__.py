"""Sentence pairs of one language to an encoder for it, and what that encoder is worth."""
