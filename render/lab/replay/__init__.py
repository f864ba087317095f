"""Runs the packaged corpus: every case in a process of its own, judged on separate axes, beside simpler rules."""
