"""Targets as data: one TOML file each, and the `Profile` that is read from it."""
