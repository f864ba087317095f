"""The front door: scripts as they are, watched code, tests and notebooks."""
