"""Bounds of what host code computes with torch: one lane over the table of ATen operations (`render.ops.aten`)."""
