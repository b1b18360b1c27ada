"""gaussip site."""

import contextlib
import datetime as dt
import signal
from pathlib import Path
from typing import Annotated, Any

import typer

from gaussip.cli.console import Answer, Json, command, err, progress, table
from gaussip.settings import written

app = typer.Typer(
    help="One site of a federation: run it, look at it, go on after a loss.",
    no_args_is_help=True,
    rich_markup_mode="markdown",
)
SILENT = 5.0  # seconds: a site reports its state every second
Folder = Annotated[Path, typer.Argument(metavar="DIR", help="The site's folder, made by gaussip federation init.")]


@app.command()
@command
def run(
    folder: Folder,
    data: Annotated[Path, typer.Option("--data", help="The site's own rows: CSV or Parquet.")],
    patience: Annotated[
        float | None,
        typer.Option(min=0.001, help="Minutes to wait for a neighbour; default: site.toml's, or no limit."),
    ] = None,
    json: Json = False,
) -> Answer:
    """Run a site, from the beginning or from wherever it stopped, until all sites are done.

    Exit codes: 0 done, 2 refused (do not start again), 3 cannot go on now (start again later), 130 stopped.

    Example: `gaussip site run folders/bern --data bern.csv`
    """
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, _stop)
    from gaussip.federation.folders import read
    from gaussip.node.engine_log import reporting_refusals
    from gaussip.node.local_data import read_local
    from gaussip.node.lock import alone
    from gaussip.node.run_store import RunStore
    from gaussip.node.runner import SiteRun
    from gaussip.node.stopped import recorded

    site_folder = read(folder)
    minutes = patience if patience is not None else site_folder.settings.patience

    def keep(end: Any) -> None:
        from gaussip.node.model import keep  # it loads scikit-learn, which is not needed before

        keep(site_folder, end)

    with alone(site_folder.path, site_folder.site), progress(site_folder.description.max_rounds) as advance:
        with recorded(site_folder, _report, about_cells=True):
            local = read_local(data, site_folder.description, site_folder.site)
        with recorded(site_folder, _report):
            site = SiteRun(
                site_folder,
                local,
                report=_report,
                keep=keep,
                watch=lambda program: (
                    advance(_doing(program), program.round) if program.exchanges % 20 == 0 else None
                ),
                patience=None if minutes is None else 60 * minutes,
            )
            with reporting_refusals(site.call_refused):
                end = site()
    found = _likelihood(end.log_likelihood, site_folder.description)
    if site_folder.description.privacy is not None:
        found = str(RunStore(site_folder.run).result("private").guarantee(site_folder.description.task()))
    ended = "converged" if end.converged else "not converged"
    text = f"{site_folder.site}: {ended} after {end.rounds} rounds, {found}; model written to {site_folder.model}"
    reduces = site_folder.description.reduce is not None
    if reduces:
        text += f", the basis of its {end.theta.means.shape[1]} features to {site_folder.basis}"
    return Answer(
        [text], site=site_folder.site, model=str(site_folder.model), rounds=end.rounds, converged=end.converged,
        log_likelihood=end.log_likelihood, change=end.change, disagreement=end.disagreement,
        run=site_folder.run.name, basis=str(site_folder.basis) if reduces else None,
    )  # fmt: skip


def _doing(program: Any) -> str:
    before = "" if program.round else f" ({program.exchanges} exchanges)"
    return f"{program.task.sites[program.index]}: {program.phase.doing}{before}"


def _likelihood(value: float, description: Any) -> str:
    where = _whose(description)
    return f"log-likelihood {value:.6g} per row {where}" if value == value else f"no row {where} counts"


def _whose(description: Any) -> str:
    """Whose rows a log-likelihood is of."""
    return "here" if description.gossips else "of all sites"


def _stop(number: int, frame: Any) -> None:
    raise KeyboardInterrupt("stopped; nothing is lost: the same command goes on")


def _report(record: dict[str, Any]) -> None:
    """An event as a line for people."""
    hidden = ("time", "event", *(["sites"] if "why" in record else []))
    rest = {key: value for key, value in record.items() if key not in hidden and value not in (None, "")}
    details = ", ".join(f"{key} {_listed(value)}" for key, value in rest.items())
    with contextlib.suppress(OSError, ValueError, SystemExit):  # nobody looks on any more: the run goes on
        err.print(f"{record['time'][:19]} {record['event']}{': ' + details if details else ''}", markup=False)


def _listed(value: Any) -> str:
    """A value of an event; lists, and counts by site or reasons by number, one after the other."""
    if isinstance(value, dict):
        return ", ".join(f"{key}: {written(one)}" for key, one in value.items())
    return ", ".join(value) if isinstance(value, list) else str(value)


@app.command()
@command
def status(folder: Folder, json: Json = False) -> Answer:
    """How a site stands: its round, its neighbours, and for whom it waits.

    Exit codes: 0 running or finished, 2 the run failed at all sites, 3 not running and not finished.

    Example: `gaussip site status folders/bern`
    """
    from gaussip.errors import PausedError
    from gaussip.federation.folders import read
    from gaussip.node.lock import is_running
    from gaussip.node.run_store import RunStore
    from gaussip.node.stopped import starting, status_of_run

    site_folder = read(folder)
    status, running, end = status_of_run(site_folder), is_running(folder), RunStore(site_folder.run).end()
    if status is None and end is None and not running:
        raise PausedError(
            f"{site_folder.site} has not been run yet with this description; gaussip site run {folder} --data TABLE "
            "starts it"
        )
    status = starting(site_folder) | {"updated": None} if status is None else status
    status["running"] = running
    status["failure"] = None if end is None or end["failure"] is None else end["failure"]["text"]
    if end is not None:
        status["phase"], status["exchange"], status["round"] = "done", end["exchanges"], end["rounds"]
        status["state"] = "finished" if status["failure"] is None else "failed"
    elif not running:
        status["state"] = "stopped"
    if running and status["updated"] is not None:
        silent = (dt.datetime.now(dt.UTC) - dt.datetime.fromisoformat(status["updated"])).total_seconds()
        status["state"] += f", but silent for {silent:.0f} s" * (silent > SILENT)
    status["checkpoints"] = RunStore(site_folder.run).checkpoints()
    why = status["failure"] or (end is None and status["paused"])
    rows = [
        ["state", status["state"] + (f": {why}" if why else "")],
        ["now", f"{status['phase']}, exchange {status['exchange']}"],
        *([["sums", status["plan"]]] if status.get("plan") else []),
        *_how_far(status, site_folder.description),
        *([["privacy", _guarantee_asked(status["privacy"])]] if status.get("privacy") else []),
        *(["waits for", f"{name}: {why}"] for name, why in status["waiting_for"].items()),
        *([f"neighbour {name}", "linked" if there and running else "not linked"] for name, there in
          status["neighbours"].items() if running or end is None),
        ["checkpoints", ", ".join(map(str, status["checkpoints"])) or "none yet"],
        *([["certificate ends", ends]] if (ends := status.get("certificate_ends")) else []),
        *([["reported at", status["updated"]]] if status["updated"] else []),
    ]  # fmt: skip
    answer = Answer(
        [table([site_folder.site, site_folder.description.name], rows, texts=[site_folder.description.name])],
        **status,
    )
    answer.exit_code = 2 if status["failure"] else 3 if status["state"] == "stopped" else 0
    return answer


def _how_far(status: dict[str, Any], description: Any) -> list[list[str]]:
    """The rounds; of a private fit, whose rounds are planned, nothing is known before the end."""
    if "max_rounds" not in status:
        return []
    if description.privacy is not None:
        return [["rounds", str(status["round"]) if status["round"] else "planned, not over"]]
    return [
        ["round", f"{status['round']} of at most {status['max_rounds']}"],
        *([name, _number(status[key])] for name, key in (
            (f"log-likelihood per row {_whose(description)}", "log_likelihood"), ("change", "change"),
            ("disagreement", "disagreement"))),
    ]  # fmt: skip


def _or_none(value: float | None) -> str:
    return "none" if value is None else f"{value:.4g}"


def _guarantee_asked(privacy: dict[str, Any]) -> str:
    if privacy["epsilon"] is None:
        return "none: the noise has a seed"
    return f"epsilon {privacy['epsilon']:g} at delta {privacy['delta']:g}, for {privacy['neighbours']}"


def _number(value: float | None) -> str:
    return "not known yet" if value is None else f"{value:.6g}"


@app.command()
@command
def privacy(folder: Folder, json: Json = False) -> Answer:
    """What private runs have spent of the site's rows, on what, and what its limit leaves.

    Example: `gaussip site privacy folders/bern`
    """
    from gaussip.federation.folders import read
    from gaussip.node.ledger import Ledger
    from gaussip.privacy.accounting import epsilon_of
    from gaussip.settings import default

    ledger = Ledger(read(folder))
    entries, limit = ledger.entries(), ledger.limit
    delta = default("delta") if limit is None else limit.delta
    spent = epsilon_of(ledger.mu(), delta)
    rows = [
        [entry.began[:16].replace("T", " "), entry.federation, entry.run, _or_none(entry.epsilon), f"{entry.delta:g}",
         f"{entry.mu:.4g}", "not over" if entry.sums is None else str(entry.sums)]
        for entry in entries
    ]  # fmt: skip
    shown: list[Any] = [f"no private run yet; the ledger is {ledger.path}"]
    if entries:
        names = ["began", "federation", "run", "epsilon", "delta", "mu", "sums"]
        seeded = sum(entry.epsilon is None for entry in entries)
        beside = f", beside {seeded} with a noise_seed, which guarantee nothing" * (seeded > 0)
        shown = [table(names, rows, texts=names[:3]), f"together epsilon {spent:.4g} at delta {delta:g}{beside}"]
    if limit is not None:
        said = f"the limit of site.toml is epsilon {limit.epsilon:g} at delta {limit.delta:g}"
        shown.append(f"{said}: one more run may have epsilon {ledger.left():.4g}")
    return Answer(
        shown, ledger=str(ledger.path), runs=[entry._asdict() for entry in entries], epsilon=spent, delta=delta,
        mu=ledger.mu(), left=ledger.left(),
        limit=None if limit is None else {"epsilon": limit.epsilon, "delta": limit.delta},
    )  # fmt: skip


@app.command("go-on")
@command
def go_on(
    folder: Folder,
    from_round: Annotated[
        int | None, typer.Option("--from", min=0, help="Checkpoint to go on from; 0: the beginning.")
    ] = None,
    without: Annotated[list[str] | None, typer.Option(help="A site that is gone for good; may be repeated.")] = None,
    undo: Annotated[bool, typer.Option("--undo", help="Take back the last such command instead.")] = False,
    json: Json = False,
) -> Answer:
    """Go on from a common checkpoint, with or without a site: give the same command at every site that stays.

    Nothing of the run so far is removed, and sites that were not given the same command refuse each other.

    Example: `gaussip site go-on folders/bern --without chur --from 1500`
    """
    from gaussip.errors import SettingError
    from gaussip.federation.folders import read
    from gaussip.node.amendments import go_on as agree
    from gaussip.node.amendments import undo as take_back

    if undo == (from_round is not None) or (undo and without):
        raise SettingError("give --from ROUND, and --without SITE if one is gone; or --undo alone")
    agreed = take_back(read(folder)) if from_round is None else agree(read(folder), without or [], from_round)
    shown = [
        "took back the last go-on: "
        * undo
        + f"goes on from {'round ' + str(agreed.from_round) if agreed.from_round else 'the beginning'} with "
        f"{len(agreed.sites)} sites: {', '.join(agreed.sites)}",
        f"digest {agreed.digest[:12]}, which must be the same at every site; then start gaussip site run again",
    ]
    return Answer(shown, digest=agreed.digest, sites=list(agreed.sites), from_round=agreed.from_round)
