"""Whole suites in one warm process: tests and case files that compare a kernel with a reference, as they stand."""
