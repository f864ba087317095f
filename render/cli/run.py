"""`render run SCRIPT.py [args]`: runs what the user has, and says at every comparison with a kernel what it means."""

from __future__ import annotations

import contextlib
import json as jsons
import os
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TextIO

import typer

from render.cli.exits import decided, guarded
from render.cli.files import STDOUT
from render.cli.limits import MEMORY, TIMEOUT, limited, short_of_memory
from render.cli.options import given, taking
from render.cli.surroundings import unwritable, width
from render.result.codes import combined
from render.result.errors import RenderError
from render.result.footing import Footing
from render.result.options import ASSUMED, REPORT
from render.result.places import relative
from render.result.progress import Doing, progress

if TYPE_CHECKING:
    from rich.text import Text

    from render.front.script import Ended
    from render.front.watch import Compared, Watch

SETTINGS = {"allow_extra_args": True, "ignore_unknown_options": True, "allow_interspersed_args": False}


@guarded
@taking("device", *ASSUMED, "ref_precision", "threads", "budget", "assume_exact", "explain_seconds", explanations=True)
def command(
    words: Annotated[
        list[str],
        typer.Argument(metavar="SCRIPT.py [ARGS]...", help="As after `python`: a script, -m module, or -- pytest ..."),
    ],
    module: Annotated[bool, typer.Option("-m", help="SCRIPT is the name of a module.")] = False,
    json: Annotated[
        str | None,
        typer.Option(metavar="PATH", help="Write all comparisons as JSON; - for stdout.", rich_help_panel=REPORT),
    ] = None,
    script_exit: Annotated[
        bool,
        typer.Option("--script-exit", help="Exit as the script does, not by the verdicts.", rich_help_panel=REPORT),
    ] = False,
    allow_inconclusive: Annotated[
        bool, typer.Option("--allow-inconclusive", help="Exit 0, not 3, if Inconclusive.", rich_help_panel=REPORT)
    ] = False,
    quiet: Annotated[
        bool, typer.Option("--quiet", "-q", help="One line per comparison.", rich_help_panel=REPORT)
    ] = False,
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="Show everything.", rich_help_panel=REPORT)] = False,
    timeout: Annotated[float, typer.Option(help=TIMEOUT, metavar="SECONDS", rich_help_panel=REPORT)] = 900,
    memory_limit: Annotated[float, typer.Option(help=MEMORY, metavar="GIB", rich_help_panel=REPORT)] = 0,
    **options: Any,
) -> int:
    """Run a script, module or tests as they are, without a GPU, and judge every comparison with a kernel's result.

    Each allclose, assert_close, assert_allclose and equal, and each largest difference that is printed or tested, gets
    a verdict on stderr. The script's own output stays what it is. The exit code is that of the worst verdict.
    """
    from render.front.script import invocation

    what = invocation(words, module)
    with _terminal(json == STDOUT) as out:
        from render.front.api import TAPE
        from render.front.script import run
        from render.front.watch import Watch
        from render.result.options import Options

        doing = Doing(limit=memory_limit)
        chosen = Options(**given(options), session={"progress": doing.launched})
        show = _Show(out, quiet, verbose)
        watch, ended, failed = Watch(chosen, show, TAPE), None, None
        try:
            seen = progress(partial(_said, watch, doing), stream=out, lines=True, doing=doing)
            with seen, limited(timeout, memory_limit), watch:
                watch.footing = Footing()
                ended = run(what, watch.footing)
                if memory_limit and short_of_memory(ended.error):
                    raise MemoryError from ended.error
        except RenderError as error:
            failed = error
        finally:
            code = _exit_code(watch, ended, allow_inconclusive)
            _write(watch, ended, code, json)
        if failed is not None:
            raise failed
        assert ended is not None
        show.end(watch, ended, what.title, code)
    return decided(ended.exit_code if script_exit else code)


def _said(watch: Watch, doing: Doing) -> str:
    """What goes on that is RENDER's: a verdict, or a launch of the script's."""
    doing.text = watch.judging
    return doing()


def _exit_code(watch: Watch, ended: Ended | None, allow_inconclusive: bool) -> int:
    from render.result.errors import UnsupportedOp

    codes = [c.exit_code for c in watch.comparisons]
    error = None if ended is None else ended.error
    if isinstance(error, UnsupportedOp):
        codes.append(3)
    elif ended is not None and ended.is_own_failure:
        codes.append(4)
    elif not codes:
        codes.append(2)
    return combined(codes, allow_inconclusive)


_NAMED = 4
"""So many unseen results are named."""


class _Show:
    """Prints verdicts as they come, every line apart from the script's own by its mark."""

    def __init__(self, out: TextIO, quiet: bool, verbose: bool) -> None:
        from rich.console import Console

        class ReportStream(Console):
            def on_broken_pipe(self) -> None:
                """Its reader has gone, and the script goes on."""
                raise BrokenPipeError

        self.console = ReportStream(file=out, width=width(out), highlight=False, markup=False, emoji=False)
        self.quiet, self.verbose = quiet, verbose
        self.lost: OSError | None = None
        self.shown: set[int] = set()

    def __call__(self, found: Compared) -> None:
        from render.report.github import annotate
        from render.report.saved import keep
        from render.report.text import place

        with contextlib.suppress(OSError, ValueError, AttributeError):  # the script may have closed it
            sys.stdout.flush()
        called = f", called at {place(*found.called_from)}" if found.called_from else ""
        where = f"{place(found.file, found.line)}  {found.name} against {found.reference}{called}"
        verdict = found.verdict
        if verdict is None:
            self._say(f"{where}: no verdict: {found.error}")
            return
        keep(verdict)
        if id(verdict) not in self.shown:
            annotate(verdict)
        if self.quiet or id(verdict) in self.shown:  # the same two tensors again
            at = f"  {place(verdict.file, verdict.line)}" if verdict.file and verdict.label != "Type-I" else ""
            self._say(f"{where}: {verdict.label.upper()} {verdict.code} {verdict.message}{at}")
            return
        from render.report import terminal

        self.shown.add(id(verdict))
        self._say(where)
        form = partial(terminal.full, verbose=True) if self.verbose else terminal.short
        for line in form(verdict, self.console.width, exit_code=verdict.exit_code):
            self._print(line)

    def end(self, watch: Watch, ended: Ended, title: str, code: int) -> None:
        from render.report import terminal
        from render.result.errors import UnsupportedOp

        for finding in watch.findings if not watch.comparisons else ():
            self._say(f"{finding.code}: {finding.message}")
        for note in watch.notes:
            self._say(note)
        if watch.comparisons and (unseen := watch.tape.unseen):
            more = f" and {len(unseen) - _NAMED} more" if len(unseen) > _NAMED else ""
            self._say(f"stored, and neither compared nor read afterwards: {', '.join(unseen[:_NAMED])}{more}")
        if ended.exit_code:
            self._say(f"{title} itself ended with exit code {ended.exit_code}")
        verdicts = watch.verdicts
        if isinstance(ended.error, UnsupportedOp):
            self._say(f"INCONCLUSIVE RND302 {ended.error}")
        elif not watch.comparisons:
            launched = watch.tape.launches
            why = "it compares no kernel's result with anything" if launched else "it launched no Triton kernel"
            why += f" ({watch.host_told})" if not launched and watch.host_told else ""
            why = why if ended.error is None else f"it raised {type(ended.error).__name__} before it compared"
            help = "compare with torch.testing.assert_close(actual, expected), or use `render classify FILE`"
            if watch.unjudged:
                one = watch.unjudged[0]
                at = f"{relative(one.file)}:{one.line}"
                why = f"what a kernel stored went into both {one.name} and {one.reference}, which {at} compares"
                help = "compute the reference before the launch, or from a copy (x.clone()) that no kernel overwrites"
            self._say(f"error[{'RND903' if launched else 'RND904'}]: nothing to judge: {why}")
            self._say(f"  help: {help}")
        elif len(watch.comparisons) > 1 or self.quiet:
            self._print(terminal.summary(verdicts, self.console.width, code))
        if self.lost is not None and (full := unwritable(self.lost)):
            raise full

    def _say(self, text: str) -> None:
        self._print(f"render: {text}")

    def _print(self, line: str | Text) -> None:
        """A stream that takes nothing is no error of the script's."""
        if self.lost is None:
            try:
                self.console.print(line, soft_wrap=True)
            except OSError as error:
                self.lost = error


@contextlib.contextmanager
def _terminal(own_stdout: bool) -> Iterator[TextIO]:
    """The real stderr, also while pytest captures it; with JSON on stdout, what the script prints goes to stderr."""
    with contextlib.ExitStack() as stack:
        try:
            out: TextIO = stack.enter_context(
                os.fdopen(os.dup(sys.stderr.fileno()), "w", buffering=1, encoding="utf-8")
            )
        except (OSError, ValueError, AttributeError):
            out = sys.stderr
        if own_stdout:
            stack.enter_context(contextlib.redirect_stdout(sys.stderr))
        yield out


def _write(watch: Watch, ended: Ended | None, code: int, json: str | None) -> None:
    if json is None:
        return
    content = {
        "schema": 1,
        "comparisons": [c.to_dict() for c in watch.comparisons],
        "script_exit": 1 if ended is None else ended.exit_code,
        "exit_code": code,
        "notes": watch.notes,
        "unseen": watch.tape.unseen,
    }
    text = jsons.dumps(content, indent=2, allow_nan=False) + "\n"
    if json == STDOUT:
        sys.__stdout__.write(text)  # type: ignore[union-attr]
        return
    try:
        Path(json).write_text(text, encoding="utf-8")
    except OSError as error:
        raise RenderError("RND901", f"cannot write {json}: {error.strerror}") from None
