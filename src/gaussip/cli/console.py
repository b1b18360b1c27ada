"""What all commands share: output for people and programs, errors, warnings and progress."""

import functools
import json as jsonlib
import threading
import warnings
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from typing import Annotated, Any, ParamSpec

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn
from rich.table import Table
from rich.text import Text

from gaussip.cli.options import as_option
from gaussip.errors import GaussipError, worded
from gaussip.files import json_ready
from gaussip.tabular import Table as Tabular

out = Console(highlight=False, soft_wrap=True)
err = Console(stderr=True, highlight=False, soft_wrap=True)
P = ParamSpec("P")

interrupted = threading.Event()  #: somebody pressed Ctrl-C

Json = Annotated[bool, typer.Option("--json", help="Print one JSON object instead of text.")]


def interrupt(number: int, frame: Any) -> None:
    """What Ctrl-C does. Python ignores an error where an object is destroyed: the next progress then raises it."""
    interrupted.set()
    raise KeyboardInterrupt


class Answer(dict[str, Any]):
    """The result of a command; ``shown`` is what people see of it, as strings and rich tables."""

    exit_code = 0

    def __init__(self, shown: list[Any], **result: Any) -> None:
        super().__init__(result)
        self.shown = shown


def command(function: Callable[P, Answer]) -> Callable[P, None]:
    """A command's body as a command: prints its answer, its warnings and its errors.

    Exit codes: 0 done, 2 input that was refused, 3 a run that can go on later, 130 interrupted.
    """

    @functools.wraps(function)
    def run(*args: P.args, **kwargs: P.kwargs) -> None:
        as_json = bool(kwargs.get("json"))
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always", UserWarning)
            try:
                answer = function(*args, **kwargs)
            except GaussipError as error:
                message = error.worded(as_option)
                if as_json:
                    _print_json({"error": {"type": type(error).__name__, "message": message, **error.fields()}})
                else:
                    err.print(f"error: {message}", style="red", markup=False)
                raise typer.Exit(error.exit_code) from None
            except KeyboardInterrupt as stop:
                err.print(str(stop) or "interrupted; nothing was written", markup=False)
                raise typer.Exit(130) from None
        lines = list(dict.fromkeys(_of_warning(w.message) for w in caught))
        if as_json:
            _print_json({**answer, "warnings": lines})
        else:
            for part in answer.shown:
                typer.echo(part) if isinstance(part, str) else out.print(part)
            for line in lines:
                err.print(f"warning: {line}", style="yellow", markup=False)
        if answer.exit_code:
            raise typer.Exit(answer.exit_code)

    return run


def _of_warning(warning: Warning | str) -> str:
    text = warning.args[0] if isinstance(warning, Warning) and warning.args else warning
    return str(worded(text, as_option))


def _print_json(content: dict[str, Any]) -> None:
    typer.echo(jsonlib.dumps(json_ready(content), indent=2, allow_nan=False))


def table(columns: list[str], rows: list[list[str]], title: str | None = None, texts: Collection[str] = ()) -> Table:
    """A table with its first column, and those of texts, to the left and numbers to the right."""
    drawn = Table(title=title, title_justify="left", box=None, pad_edge=False, header_style="bold")
    for j, name in enumerate(columns):
        drawn.add_column(Text(name), justify="left" if j == 0 or name in texts else "right")
    for row in rows:
        drawn.add_row(*map(Text, row))  # as they are: names may look like markup
    return drawn


def drawn(shown: Tabular) -> Table:
    """A table of the library as commands print it."""
    return table(list(shown.columns), shown.cells())


def component_names(mixture: Any) -> list[str]:
    """How people see the components: by class where there is one, else by number."""
    from gaussip.mixture.owners import component_names as names_of

    return names_of(mixture.classes_.tolist(), mixture.class_of_component_)


@contextmanager
def progress(total: int, after: float = 2.0, *, percent: bool = False) -> Iterator[Callable[[str, int], None]]:
    """A bar on standard error, shown once the work has taken two seconds: call it with a text and the count done."""
    count = TaskProgressColumn() if percent else MofNCompleteColumn()
    columns = (TextColumn("{task.description}"), BarColumn(), count, TimeRemainingColumn())
    bar = Progress(*columns, console=err, transient=True, disable=not err.is_interactive)
    task = bar.add_task("working", total=total)
    last: dict[str, Any] = {}

    def begin() -> None:
        bar.update(task, **last)
        bar.start()

    timer = threading.Timer(after, begin)  # also where nothing advances for long
    timer.daemon = True
    timer.start()

    def advance(text: str, done: int) -> None:
        if interrupted.is_set():
            raise KeyboardInterrupt
        last.update(description=text, completed=done)
        if bar.live.is_started:
            bar.update(task, **last)

    try:
        yield advance
    finally:
        timer.cancel()
        timer.join()
        if bar.live.is_started:
            bar.stop()
