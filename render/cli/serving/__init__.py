"""`render serve`: a process with everything loaded that forks itself for each command."""
