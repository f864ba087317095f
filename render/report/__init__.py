"""Views of a verdict: terminal, JSON, HTML. They read verdict data only and never run anything."""
