"""`python -m render`: the same as the `render` command."""

from __future__ import annotations

from render.cli import main

if __name__ == "__main__":
    main()
