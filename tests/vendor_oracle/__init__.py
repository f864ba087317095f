"""The vendor's own math library, run on the CPU: an oracle for documented errors that no rule here is derived from."""
