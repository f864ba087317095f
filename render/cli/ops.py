"""`render ops`: the rule table, one line per operation, with the error that a device profile gives it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer

from render.cli.exits import guarded
from render.cli.output import console

if TYPE_CHECKING:
    from rich.table import Table

    from interval_ops.profile import Profile


@dataclass(frozen=True, slots=True)
class Row:
    """One operation as `render ops` shows it; `tight` is False where the interval is wider than it need be."""

    op: str
    shape: str
    cause: str
    error: str
    tight: bool
    doc: str
    source: str


@guarded
def command(
    device: Annotated[str, typer.Option(help="Device profile whose error terms are shown.")] = "any",
    json: Annotated[bool, typer.Option("--json", help="Print the table as JSON.")] = False,
    match: Annotated[str, typer.Option("--match", "-k", help="Only operations whose name contains this.")] = "",
) -> int:
    """List the operations that have a rule, how each is bounded, and what is not supported."""
    from interval_ops import rules

    profile = _profile(device)
    rows = [row for row in table(profile) if match in row.op]
    exact = sorted(op for op in rules.EXACT if match in op)
    missing = {op: why for op, why in sorted(rules.UNSUPPORTED.items()) if match in op}
    if json:
        typer.echo(_json(profile, rows, exact, missing))
    else:
        _print(profile, rows, exact, missing)
    return 0


def table(profile: Profile) -> list[Row]:
    """The rules in the order of `interval_ops.rules.RULES`, with the error terms of `profile`."""
    from interval_ops import rules

    return [_row(rule, profile) for rule in rules.RULES.values()]


def _row(rule: Any, profile: Profile) -> Row:
    return Row(
        rule.op,
        str(getattr(rule.shape, "value", rule.shape)),
        rule.cause or "",
        _error(rule, profile),
        bool(rule.tight),
        " ".join((rule.doc or "").split()),
        rule.source or "",
    )


def _error(rule: Any, profile: Profile) -> str:
    """The error term as text; a profile that has none for this operation says so."""
    if rule.error is None:
        return "exact"
    if not callable(rule.error):
        return str(rule.error)
    try:
        return str(rule.error(profile))
    except LookupError as error:
        return str(error)


def _profile(name: str) -> Profile:
    from interval_ops.profile import load_profile

    try:
        return load_profile(name)
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="--device") from None


def _json(profile: Profile, rows: list[Row], exact: list[str], missing: dict[str, str]) -> str:
    from dataclasses import asdict
    from json import dumps

    return dumps(
        {
            "schema": 1,
            "device": profile.name,
            "rules": [asdict(r) for r in rows],
            "exact": exact,
            "unsupported": missing,
        },
        indent=2,
    )


def _print(profile: Profile, rows: list[Row], exact: list[str], missing: dict[str, str]) -> None:
    import textwrap

    out = console()
    out.print(f"device {profile.name}: {profile.title}, {profile.confidence}\n")
    if rows:
        out.print(_grid(rows, wide=out.width >= 120))
    for title, names in (("exact (integers, addresses)", exact), ("not supported", _reasons(missing))):
        if names:
            out.print(f"\n{title}: {len(names)}")
            text = ", ".join(names) if names is exact else "\n".join(names)
            for line in text.splitlines():
                for part in textwrap.wrap(line, max(20, out.width - 2), break_on_hyphens=False):
                    out.print(f"  {part}", soft_wrap=True)


def _reasons(missing: dict[str, str]) -> list[str]:
    return [f"{op}: {why}" for op, why in missing.items()]


def _grid(rows: list[Row], wide: bool) -> Table:
    from rich import box
    from rich.table import Table

    grid = Table(box=box.SIMPLE_HEAD if not wide else box.SIMPLE, pad_edge=False, safe_box=True)
    columns = ["operation", "rule", "error", "bound", *(["source"] if wide else [])]
    for name in columns:
        grid.add_column(name, overflow="fold")
    for cells in _cells(rows, wide):
        grid.add_row(*cells)
    return grid


def _cells(rows: list[Row], wide: bool) -> Iterator[list[str]]:
    for row in rows:
        cells = [row.op, row.shape, row.error, "tight" if row.tight else "loose"]
        yield [*cells, row.source] if wide else cells
