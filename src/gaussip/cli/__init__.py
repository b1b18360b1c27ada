"""The command line, one file per command."""

import os

import typer

from gaussip import __version__
from gaussip.cli import (
    check,
    choose_eta,
    choose_k,
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
from gaussip.cli.console import command

app = typer.Typer(
    name="gaussip",
    help="Gaussian mixtures across sites that never share a row and have no central server.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
)
_modules = (check, fit, predict, impute, choose_k, choose_eta, intervals, diagnose, reduce, network, simulate, demo)
for _module in _modules:
    app.command(name=_module.__name__.rpartition(".")[2].replace("_", "-"))(command(_module.run))
for _group in (federation, site, study, xray):
    app.add_typer(_group.app, name=_group.__name__.rpartition(".")[2])


def _show_version(asked: bool) -> None:
    if asked:
        typer.echo(f"gaussip {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: bool = typer.Option(False, "--version", callback=_show_version, is_eager=True, help="Show the version."),
) -> None:
    pass


def main() -> None:
    """Entry point of the ``gaussip`` command."""
    os.environ["MPLBACKEND"] = "agg"  # pictures go to files: no window, no display
    app()
