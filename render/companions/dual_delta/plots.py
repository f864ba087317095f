"""One figure of two samples of errors, and a page around it."""

from __future__ import annotations

import base64
import html
import io
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from render.result.document import document
from render.result.errors import RenderError
from render.result.needs import drawn, pyplot

if TYPE_CHECKING:
    from render.companions.dual_delta.experiment import DualDelta

_BINS = 100


def figure(found: DualDelta, path: Any) -> None:
    """Overlapping histograms (100 common bins), boxes, Q-Q of D1 against D2, scatter with the diagonal."""
    plt = pyplot()
    d1, d2 = found.d1, found.d2
    one, two = found.names if found.names[0] != found.names[1] else ("f1", "f2")
    fig, ((left, box), (quantiles, scatter)) = plt.subplots(2, 2, figsize=(9, 7), layout="constrained")
    if d1.size:
        both = np.concatenate([d1, d2])
        apart = both.min() > 0 and both.max() > 20 * both.min()
        edges = np.geomspace if apart else np.linspace
        low, high = both.min(), both.max() if both.max() > both.min() else both.min() + 1e-300
        bins = edges(low, high, _BINS + 1)
        for x, name in ((d1, one), (d2, two)):
            left.hist(x, bins, alpha=0.5, label=name)
        box.boxplot([d1, d2], tick_labels=[one, two])
        shares = np.linspace(0, 100, min(d1.size, 201))
        quantiles.plot(np.percentile(d2, shares), np.percentile(d1, shares), ".", ms=4)
        scatter.plot(d2, d1, ".", ms=3, alpha=0.6)
        for axes in (quantiles, scatter):
            axes.plot((low, high), (low, high), color="0.5", lw=0.8)
        for axes, which in ((left, "x"), (box, "y"), (quantiles, "both"), (scatter, "both")):
            if apart:
                axes.set(**{f"{a}scale": "log" for a in ("x", "y") if which in (a, "both")})
            else:
                axes.ticklabel_format(style="sci", scilimits=(0, 0), axis=which)
                axes.locator_params(nbins=5, axis=which)
        left.yaxis.get_major_locator().set_params(integer=True)
        left.legend(fontsize=8)
    left.set(xlabel=f"{found.metric} error", ylabel="inputs")
    box.set_ylabel(f"{found.metric} error")
    quantiles.set(xlabel=f"quantiles of {two}", ylabel=f"quantiles of {one}")
    scatter.set(xlabel=f"error of {two}", ylabel=f"error of {one}")
    fig.suptitle(f"{found.outcome}: {found.n} inputs", fontsize=10)
    drawn(fig, path)


def page(found: DualDelta, path: Any) -> None:
    """One self-contained page; without matplotlib its text alone."""
    drawn = io.BytesIO()
    try:
        figure(found, drawn)
        data = base64.b64encode(drawn.getvalue()).decode()
        picture = (
            f'<img alt="histograms, boxes, Q-Q plot and scatter of the errors" src="data:image/png;base64,{data}">'
        )
    except RenderError as missing:
        picture = f"<p>no figure: {html.escape(str(missing))}</p>"
    title = f"Dual-Delta: {found.outcome}"
    body = f"<h1>{html.escape(title)}</h1>{picture}<pre>{html.escape(found.report())}</pre>"
    Path(path).write_text(document(title, body), encoding="utf-8")
