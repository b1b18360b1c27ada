"""How long real sites take to their model, and how many rounds a second they do, beside the bare engine.

    python benchmarks/sites.py            # 8 and 20 sites on a ring, p = 6, K = 3, 1500 rows each

To the model: masked, exact and mnem, from the first start of a process to the last model. Rounds a second: MNEM, as
in a study, with mutual TLS, access rules, journal and audit, against processes that publish as many bytes and wait
for their neighbours', over the same sessions. What is compared is measured in one run, one after the other.
"""

from __future__ import annotations

import argparse
import datetime as dt
import json
import queue
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from gaussip.exchange.neighbourhood import Neighbours
from gaussip.federation import folders, reading
from gaussip.node.links import Links
from gaussip.rows.table_files import write_table
from gaussip.studies.demo_sites import free_ports
from gaussip.studies.simulation_model import Setting, draw
from results import Table, report

ROWS, FEATURES, ROUNDS = 1500, 6, {8: 3000, 20: 1000}
MODELS = {"masked": 1000, "exact": 2000, "mnem": 3000}  # and the most rounds of each
WARM = 50  # exchanges until all links are there


def make(folder: Path, n_sites: int, rounds: int, algorithm: str = "mnem", tol: float = 0.0) -> list[str]:
    """A federation's tables and folders."""
    names = [f"s{m:02d}" for m in range(n_sites)]
    data = draw(Setting(n_rows=ROWS * n_sites, n_sites=n_sites, n_features=FEATURES), 1)
    features = [f"x{j}" for j in range(FEATURES)]
    for m, name in enumerate(names):
        mine = data.sites == m
        write_table(folder / f"{name}.csv", {x: data.X[mine, j] for j, x in enumerate(features)})
    sites = [f'{name} = {{ address = "127.0.0.1:{port}" }}' for name, port in free_ports(names).items()]
    text = "\n".join(
        [
            f'name = "bench"\nalgorithm = "{algorithm}"\nnetwork = "ring"\ncomponents = 3\ntol = {tol}\neta = 0.01',
            f'reveals = "{"nothing" if algorithm == "masked" else "site moments"}"',
            f"features = {json.dumps(features)}\nmax_rounds = {rounds}\n[sites]", *sites,
        ]
    )  # fmt: skip
    folders.init(text, reading.of_text(text), folder / "folders", days=1, requests=False)
    return names


def run_sites(folder: Path, names: list[str]) -> float:
    """Seconds from the first start of a process until all have ended."""
    began = time.perf_counter()
    running = [
        subprocess.Popen(
            [sys.executable, "-m", "gaussip", "site", "run", str(folder / "folders" / name), "--data",
             str(folder / f"{name}.csv")],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )
        for name in names
    ]  # fmt: skip
    if any(process.wait() for process in running):
        raise SystemExit("a site failed")
    return time.perf_counter() - began


def to_the_model(repeat: int) -> Table:
    """Eight sites, from the start of their processes to their models, by three algorithms in turns."""
    seconds: dict[str, list[float]] = {}
    ended: dict[str, dict[str, float]] = {}
    for _ in range(repeat):
        for algorithm, rounds in MODELS.items():
            with tempfile.TemporaryDirectory() as scratch:
                folder = Path(scratch)
                names = make(folder, 8, rounds, algorithm, tol=1e-6)
                whole = run_sites(folder, names)
                between = [at_of(folder, name) for name in names]
                met = max((at["finished"] - at["met"]).total_seconds() for at in between)
                seconds.setdefault(algorithm, []).append(whole)
                status = json.loads((folder / "folders" / names[0] / "status.json").read_text())
                ended[algorithm] = {"rounds": status["round"], "exchanges": status["exchange"], "met": met}
    lines = [
        [name, statistics.median(taken), ended[name]["met"], ended[name]["rounds"], ended[name]["exchanges"]]
        for name, taken in seconds.items()
    ]
    columns = ["algorithm", "seconds in all", "of which between meeting and finishing", "rounds", "exchanges"]
    about = f"8 sites on a ring, median of {repeat}; mnem with eta 0.01, which ends with a bias."
    return Table("From the start to the model", about, columns, lines)


def at_of(folder: Path, name: str) -> dict[str, dt.datetime]:
    """When each kind of event last happened at a site."""
    lines = (folder / "folders" / name / "events.jsonl").read_text().splitlines()
    return {record["event"]: dt.datetime.fromisoformat(record["time"]) for record in map(json.loads, lines)}


def rounds_a_second(folder: Path, names: list[str], rounds: int) -> float:
    """Of real sites, from the agreed start to the end: the slowest site's."""
    run_sites(folder, names)
    seconds = []
    for name in names:
        at = at_of(folder, name)
        seconds.append((at["finished"] - at["agreed on a start"]).total_seconds())
    return rounds / max(seconds)


def engine_alone(folder: Path, names: list[str], rounds: int, size: int) -> float:
    """Rounds a second of processes that only exchange: the slowest one's."""
    running = [
        subprocess.Popen(
            [sys.executable, __file__, "--bare", str(folder / "folders" / name), str(rounds), str(size)],
            stdout=subprocess.PIPE, text=True,
        )
        for name in names
    ]  # fmt: skip
    return min(float(process.communicate()[0]) for process in running)


def bare(path: str, rounds: int, size: int) -> None:
    """One such process."""
    folder = folders.read(Path(path))
    task = folder.description.task()
    near = {task.sites[q] for q in Neighbours(task.W, task.sites.index(folder.site)).all}
    inbox: queue.SimpleQueue[tuple[str, bytes]] = queue.SimpleQueue()
    links = Links(folder, near, near, 1 << 20, lambda sender, data, alone: inbox.put((sender, data)))
    links.open()
    heard: dict[int, set[str]] = {}
    sent = [b"", b""]

    def exchange(number: int) -> None:
        sent[:] = [sent[1], number.to_bytes(8, "big") + bytes(size - 8)]
        links.publish(sent[1])
        while heard.get(number) != near:
            try:
                sender, data = inbox.get(timeout=0.2)
                heard.setdefault(int.from_bytes(data[:8], "big"), set()).add(sender)
            except queue.Empty:  # somebody was not there yet
                for data in sent:
                    links.publish(data)
        heard.pop(number)

    for number in range(1, WARM + 1):
        exchange(number)
    began = time.perf_counter()
    for number in range(WARM + 1, WARM + rounds + 1):
        exchange(number)
    print(rounds / (time.perf_counter() - began))
    for _ in range(40):  # for those who are late
        time.sleep(0.2)
        links.publish(sent[1])
    links.close()


def main() -> None:
    """The table, or one process of the engine alone."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bare", nargs=3, help=argparse.SUPPRESS)
    parser.add_argument("--repeat", type=int, default=3, help="measure so many times, and take the median")
    asked = parser.parse_args()
    if asked.bare:
        bare(asked.bare[0], int(asked.bare[1]), int(asked.bare[2]))
        return
    tables = [to_the_model(asked.repeat)]
    rows = []
    for n_sites, rounds in ROUNDS.items():
        rates = []
        for _ in range(asked.repeat):
            with tempfile.TemporaryDirectory() as scratch:
                folder = Path(scratch)
                names = make(folder, n_sites, rounds)
                engine = engine_alone(folder, names, rounds, 740)
                rates.append((rounds_a_second(folder, names, rounds), engine))
        medians = [statistics.median(values) for values in zip(*rates, strict=True)]
        rows.append([n_sites, *medians, statistics.median(whole / engine for whole, engine in rates)])
    about = f"Rounds a second, median of {asked.repeat}; ring, MNEM."
    tables.append(Table("Rounds", about, ["sites", "rounds a second", "engine alone", "ratio"], rows))
    report("sites", tables)


if __name__ == "__main__":
    main()
