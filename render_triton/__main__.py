"""`python -m render_triton`: the command `render`, also in a folder with a `render.py`."""

from __future__ import annotations

import render_triton

if __name__ == "__main__":
    render_triton.main()
