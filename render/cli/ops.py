"""`render ops`: the rule table, one line per operation, with the error that a device profile gives it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer

from render.cli.exits import guarded
from render.cli.output import console

if TYPE_CHECKING:
    from interval_ops.profiles.profile import Profile


_WIDE = 120


@dataclass(frozen=True, slots=True)
class OperationRow:
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
    page: Annotated[bool, typer.Option("--page", help="Print the page docs/ops.md, for all profiles.")] = False,
) -> int:
    """List the operations that have a rule, how each is bounded, and what is not supported."""
    if page:
        from render.ops import page as ops_page

        typer.echo(ops_page.page(), nl=False)
        return 0
    from render.ops import table as rules

    profile = _profile(device)
    rows = [row for row in table(profile) if match in row.op]
    exact = sorted(op for op in rules.EXACT if match in op)
    missing = {op: why for op, why in sorted(rules.UNSUPPORTED.items()) if match in op}
    if json:
        typer.echo(_json(profile, rows, exact, missing))
    else:
        _print(profile, rows, exact, missing)
    return 0


def table(profile: Profile) -> list[OperationRow]:
    """The rules in the order of `render.ops.table.RULES`, with the error terms of `profile`."""
    from render.ops import table as rules

    return [_row(rule, profile) for rule in rules.RULES.values()]


def _row(rule: Any, profile: Profile) -> OperationRow:
    error, source = _split(_error(rule, profile))
    shape = str(getattr(rule.shape, "value", rule.shape))
    doc = " ".join((rule.doc or "").split())
    return OperationRow(rule.op, shape, rule.cause or "", error, bool(rule.tight), doc, source or rule.source or "")


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


def _split(error: str) -> tuple[str, str]:
    """(error term, its source), where the source is the bracket that ends the text."""
    text, bracket, source = error.rstrip("]").partition(" [")
    return (text, source) if bracket and error.endswith("]") and "[" not in source else (error, "")


def _profile(name: str) -> Profile:
    from interval_ops.profiles.profile import load_profile

    try:
        return load_profile(name)
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="--device") from None


def _json(profile: Profile, rows: list[OperationRow], exact: list[str], missing: dict[str, str]) -> str:
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


def _print(profile: Profile, rows: list[OperationRow], exact: list[str], missing: dict[str, str]) -> None:
    width = console().width
    lines = [f"device {profile.name}: {profile.title}, {profile.confidence}", ""]
    lines += _grid(rows, width)
    for title, text in (
        (f"exact (integers, addresses): {len(exact)}", [", ".join(exact)]),
        (f"not supported: {len(missing)}", [f"{op}: {why}" for op, why in missing.items()]),
    ):
        if any(text):
            lines += ["", title, *(part for line in text for part in _wrapped("  ", line, width))]
    typer.echo("\n".join(lines))


def _grid(rows: list[OperationRow], width: int) -> Iterator[str]:
    """One rule per line; the error term comes last and wraps, its source only where there is room for it."""
    if not rows:
        return
    first = max(len(row.op) for row in rows) + 2
    second = max(len(row.shape) for row in rows) + 2
    yield f"{'operation':<{first}}{'rule':<{second}}{'bound':<7}error"
    for row in rows:
        head = f"{row.op:<{first}}{row.shape:<{second}}{'tight' if row.tight else 'loose':<7}"
        source = f"  [{row.source}]" if row.source and width >= _WIDE else ""
        yield from _wrapped(head, row.error + source, width)


def _wrapped(head: str, text: str, width: int) -> list[str]:
    import textwrap

    parts = textwrap.wrap(text, max(20, width - len(head)), break_on_hyphens=False)
    return [(head if i == 0 else " " * len(head)) + part for i, part in enumerate(parts)]
