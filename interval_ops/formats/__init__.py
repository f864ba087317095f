"""Number formats, conversions between them, and the rounding gate."""
