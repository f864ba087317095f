"""Many units of work, on this machine or several: each done once and kept, however often it is interrupted.

This room knows neither kernels nor verdicts: a unit is a picklable record with a key, its result a list of rows in JSON
types. What works (`execute`) and what a unit is are the caller's.
"""
