"""Other methods beside the bound: the width of accumulators, two error distributions, demotion."""
