"""Interval arithmetic for GPU number formats: numbers only, knows neither torch nor triton."""
