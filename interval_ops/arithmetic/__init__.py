"""Elementwise arithmetic and selection on intervals."""
