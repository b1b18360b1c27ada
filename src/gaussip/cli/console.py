"""What all commands share: output for people and programs, errors, warnings and progress."""

from __future__ import annotations

import functools
import json as jsonlib
import re
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

from gaussip.errors import DesignError, FederationError, GaussipError
from gaussip.files import json_ready

out = Console(highlight=False, soft_wrap=True)
err = Console(stderr=True, highlight=False, soft_wrap=True)
P = ParamSpec("P")

Json = Annotated[bool, typer.Option("--json", help="Print one JSON object instead of text.")]


class Answer(dict[str, Any]):
    """What a command found; ``shown`` is what people see of it, as strings and rich tables."""

    def __init__(self, shown: list[Any], **found: Any) -> None:
        super().__init__(found)
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
                of_a_file = isinstance(error, FederationError | DesignError)
                message = str(error) if of_a_file else with_options(str(error))
                if as_json:
                    _print_json({"error": {"type": type(error).__name__, "message": message}})
                else:
                    err.print(f"error: {message}", style="red", markup=False)
                raise typer.Exit(error.exit_code) from None
            except KeyboardInterrupt as stop:
                err.print(str(stop) or "interrupted; nothing was written", markup=False)
                raise typer.Exit(130) from None
        said = list(dict.fromkeys(with_options(str(w.message)) for w in caught))
        if as_json:
            _print_json({**answer, "warnings": said})
            return
        for part in answer.shown:
            typer.echo(part) if isinstance(part, str) else out.print(part)
        for line in said:
            err.print(f"warning: {line}", style="yellow", markup=False)

    return run


OPTIONS = {
    "n_components": "--components",
    "max_rounds": "--rounds",
    "reg_covar": "--reg-covar",
    "give y, or": "name their column with --labels, or",
    "init_params='kmeans'": "--start kmeans",
    "init_params='labels'": "--start labels",
    "init_params": "--start",
    "algorithm='mnem'": "--algorithm mnem",
    "algorithm='exact'": "--algorithm exact",
    "n_init": "--n-init",
    "at_least": "--min",
    "at_most": "--max",
    "warm_start: the last fit": "the model of --start",
    "use warm_start=False": "choose another --start",
    "sample_weight": "the column of --weights",
    "give means_init, weights_init and covariances_init": "give a model file as --start",
}


def with_options(text: str) -> str:
    """A message of the library in the words of the command line."""
    for name, option in OPTIONS.items():
        text = text.replace(name, option)
    text = re.sub(r"(?<![\w-])(rounds|extra)=", r"--\1 ", text)
    return re.sub("^y (?=has |mixes )", "the column of --labels ", text)


def _print_json(found: dict[str, Any]) -> None:
    typer.echo(jsonlib.dumps(json_ready(found), indent=2, allow_nan=False))


def table(columns: list[str], rows: list[list[str]], title: str | None = None, texts: Collection[str] = ()) -> Table:
    """A table with its first column, and those of texts, to the left and numbers to the right."""
    drawn = Table(title=title, title_justify="left", box=None, pad_edge=False, header_style="bold")
    for j, name in enumerate(columns):
        drawn.add_column(Text(name), justify="left" if j == 0 or name in texts else "right")
    for row in rows:
        drawn.add_row(*map(Text, row))  # as they are: names may look like markup
    return drawn


def component_names(mixture: Any) -> list[str]:
    """How people see the components: by class where there is one, else by number."""
    classes = [str(name) for name in mixture.classes_]
    others = [f"component {k}" for k in range(len(classes), mixture.n_components)]
    return classes + [f"{name} (unlabelled)" if name in classes else name for name in others]


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

    timer = threading.Timer(after, begin)  # also where nothing is told for long
    timer.daemon = True
    timer.start()

    def advance(text: str, done: int) -> None:
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
