"""Elementary and special functions of one argument."""
