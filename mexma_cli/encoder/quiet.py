"""Transformers without its own output, which is about files and not about the user's text."""

from __future__ import annotations


def quieten_transformers() -> None:
    """Turn off its progress bars, warnings and reports."""
    from transformers.utils import logging

    logging.set_verbosity_error()
    logging.disable_progress_bar()
