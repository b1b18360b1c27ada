"""The command line, one file per command."""

import os
import signal

import typer

from gaussip import __version__
from gaussip.cli import (
    check,
    choose_eta,
    choose_k,
    choose_per_class,
    demo,
    diagnose,
    federation,
    fit,
    impute,
    intervals,
    network,
    predict,
    reduce,
    simulate,
    site,
    study,
    xray,
)
from gaussip.cli.console import command, interrupt

app = typer.Typer(
    name="gaussip",
    help="Gaussian mixtures across sites that never share a row and have no central server.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
)
_modules = (
    check, fit, predict, impute, choose_k, choose_per_class, choose_eta, intervals, diagnose, reduce, network,
    simulate, demo,
)  # fmt: skip
for _module in _modules:
    app.command(name=_module.__name__.rpartition(".")[2].replace("_", "-"))(command(_module.run))
for _group in (federation, site, study, xray):
    app.add_typer(_group.app, name=_group.__name__.rpartition(".")[2])


@app.callback(invoke_without_command=True)
def _options(version: bool = typer.Option(False, "--version", help="Show the version.")) -> None:
    if version:
        typer.echo(f"gaussip {__version__}")
        raise typer.Exit


def main() -> None:
    """Entry point of the ``gaussip`` command."""
    os.environ["MPLBACKEND"] = "agg"  # pictures go to files: no window, no display
    signal.signal(signal.SIGINT, interrupt)
    app()
