"""What the code of a comparison says: that two things are to differ."""

from __future__ import annotations

import linecache

import pytest

from render.front.names import denied

DIFFER = [
    "assert not torch.equal(a, b)",
    "assert (a - b).abs().max() > 0.1",
    "assert 1e-3 < np.abs(a - b).max()",
    "assert ((a - b).abs() / b.abs()).max() >= tol",
    "err = (a - b).abs().max().item()\nassert err > 0.1",
    "err = (a - b).norm()\nprint(err)\nassert 0.5 < err, 'the old version was right'",
]
AGREE = [
    "assert (a - b).abs().max() < 0.1",
    "assert (a - b).abs().max() >= 0",
    "assert torch.cosine_similarity(a, b, dim=0) > 0.99",
    "assert (a == b).float().mean() > 0.99",
    "assert 1 - (a - b).abs().max() > 0.9 or True",
    "assert 10 * torch.log10(b.norm() / (a - b).norm()) > 30",
    "assert b.norm() / (a - b).norm() > 100",
    "err = (a - b).abs().max().item()\nassert err < 0.1",
    "err = (a - b).abs().max().item()\nassert err > 0\nassert err < 0.1",
    "similarity = torch.dot(a, b) / (a.norm() * b.norm())\nassert similarity > 0.99",
    "err = (a - b).abs().max().item()\nprint(err)",
]


@pytest.mark.parametrize(("text", "differ"), [(t, True) for t in DIFFER] + [(t, False) for t in AGREE])
def test_what_is_asserted_to_differ_is_no_comparison(text: str, differ: bool) -> None:
    file = f"<{text}>"
    linecache.cache[file] = (len(text), None, [line + "\n" for line in text.split("\n")], file)
    assert denied(file, 1) == differ
