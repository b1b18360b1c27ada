"""How many rounds a second real sites do, against the same engine carrying the same bytes and nothing else.

    python benchmarks/sites.py            # 8 and 20 sites on a ring, MNEM, p = 6, K = 3, 1500 rows each

Both are measured in one run, one after the other: sites as they run in a study, with mutual TLS, access rules,
journal and audit; and processes that publish as many bytes and wait for their neighbours', over the same sessions.
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
from gaussip.rows.tables import write_table
from gaussip.studies.demo_sites import free_ports
from gaussip.studies.simulation_model import Setting, draw
from results import Table, report

ROWS, FEATURES, ROUNDS = 1500, 6, {8: 3000, 20: 1000}
WARM = 50  # exchanges until all links are there


def make(folder: Path, n_sites: int, rounds: int) -> list[str]:
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
            'name = "bench"\nalgorithm = "mnem"\nnetwork = "ring"\ncomponents = 3\ntol = 0.0\neta = 0.01',
            f"features = {json.dumps(features)}\nmax_rounds = {rounds}\n[sites]", *sites,
        ]
    )  # fmt: skip
    folders.init(text, reading.of_text(text), folder / "folders", days=1, requests=False)
    return names


def sites_alone(folder: Path, names: list[str], rounds: int) -> float:
    """Rounds a second of real sites, from the agreed start to the end: the slowest site's."""
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
    seconds = []
    for name in names:
        lines = (folder / "folders" / name / "events.jsonl").read_text().splitlines()
        at = {record["event"]: dt.datetime.fromisoformat(record["time"]) for record in map(json.loads, lines)}
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
    rows = []
    for n_sites, rounds in ROUNDS.items():
        rates = []
        for _ in range(asked.repeat):
            with tempfile.TemporaryDirectory() as scratch:
                folder = Path(scratch)
                names = make(folder, n_sites, rounds)
                engine = engine_alone(folder, names, rounds, 740)
                rates.append((sites_alone(folder, names, rounds), engine))
        medians = [statistics.median(values) for values in zip(*rates, strict=True)]
        rows.append([n_sites, *medians, statistics.median(whole / engine for whole, engine in rates)])
    about = f"Rounds a second, median of {asked.repeat}; ring, MNEM."
    report("sites", [Table("Real sites", about, ["sites", "rounds a second", "engine alone", "ratio"], rows)])


if __name__ == "__main__":
    main()
