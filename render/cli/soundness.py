"""`render doctor --soundness`: random legal executions against the bounds, for about twenty seconds."""

from __future__ import annotations

import typer

from render.cli.options import checked

_SECONDS = 20.0


def command(checks: int | None, devices: list[str] | None, chosen: dict[str, str] | None = None) -> int:
    """Attack rules and kernels on the given profiles, under what is `chosen` of the compiler (`options.ASSUMED`).

    1 if any result lies outside its bounds.
    """
    from render.lab.adversary import campaign, catalogue
    from render.lab.adversary.attack import AttackTally

    asked = chosen or {}
    profiles = checked(asked, devices or ("any", "sm_90", "gfx942"))
    if asked:
        typer.echo(", ".join(f"{name.replace('_', ' ')} {value}" for name, value in asked.items()))
    typer.echo(f"{'kernel':<38}{'profile':<14}{'checks':>10}{'outside':>9}{'closest':>9}")

    def show(profile: str, name: str, tally: AttackTally) -> None:
        note = f"{tally.approach:>9.3f}" if not tally.skipped else f"  {tally.skipped}"
        typer.echo(f"{name:<38}{profile:<14}{tally.checks:>10}{tally.violated:>9}{note}")

    total, seed = 0, 1
    violated, seconds = 0, 0.0
    while True:
        limit = _SECONDS if checks is None else None
        report = campaign.run(profiles, catalogue.quick(), 0.1, seed, 50, show, limit, 64)
        total, violated, seconds = (
            total + report.total.checks,
            violated + report.total.violated,
            report.seconds + seconds,
        )
        for v in report.total.violations[:5]:
            typer.echo(f"outside: {v.subject} on {v.profile}, inputs {v.style!r}, seed {v.seed}, element {v.index}: "
                       f"{v.value!r} not in [{v.lo!r}, {v.hi!r}]; choices {v.choices}")  # fmt: skip
        if violated or checks is None or total >= checks:
            break
        seed += 1
    far = ", ".join(f"{name} {value:.2f}" for name, value in sorted(report.far.items(), key=lambda x: x[1]))
    if far:
        typer.echo(f"far from their bounds: {far}")
    typer.echo(f"\n{total} checks in {seconds:.0f} s, {violated} outside{' ' * 30}exit {int(violated > 0)}")
    return int(violated > 0)
