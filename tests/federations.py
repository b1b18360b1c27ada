"""Federations of real processes on loopback, for tests."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv

from command import PROGRAM
from gaussip.federation import folders, reading
from gaussip.files.archive import read as read_model
from gaussip.node.journal import Journal
from gaussip.phases.program import NAMES
from gaussip.rows.problem import prepare, seeds_of
from gaussip.settings import default
from gaussip.simulation.run import simulate
from gaussip.starts.given import Given, Regularised, starts
from gaussip.studies.demo_sites import free_ports
from gaussip.studies.simulation_model import Setting, draw

MIN_COUNT = default("min_count")


def _toml(value):
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{key} = {_toml(one)}" for key, one in value.items()) + " }"
    return json.dumps(value)


LONG = 120.0  # seconds after which a test gives up


class Federation:
    """Sites with their tables and folders; all processes end with the block."""

    def __init__(
        self, path: Path, n_sites=4, *, addresses=None, seed=1, n_rows=60, n_features=3,
        spread="heterogeneous", **settings
    ):  # fmt: skip
        self.path = path
        rows = n_rows * n_sites
        given = Setting(n_rows=rows, n_sites=n_sites, n_features=n_features, delta=3, labelled=0.4, spread=spread)
        self.data = draw(given, seed)
        for m in range(n_sites):  # labels of a class with fewer than min_count at a site are refused there
            for k in range(3):
                few = (self.data.sites == m) & (self.data.labels == k)
                if few.sum() < MIN_COUNT:
                    self.data.labels[few] = -1
        self.names = [f"s{m}" for m in range(n_sites)]
        self.ports = free_ports(self.names)
        found = {
            "name": "trial", "components": 3, "features": [f"x{j}" for j in range(n_features)], "labels": "y",
            "classes": ["c0", "c1", "c2"], "network": "ring", "eta": 0.05, "tol": 0.0,
            "max_rounds": 60, "reg_covar": 1e-3, "reveals": "site moments", "algorithm": "exact",
        }  # fmt: skip
        self.settings = found | settings
        lines = [f"{key} = {_toml(value)}" for key, value in self.settings.items() if value is not None]
        lines.append("[sites]")
        for name in self.names:
            address = (addresses or {}).get(name, f"127.0.0.1:{self.ports[name]}")
            lines.append(f"{name} = {{}}" if address is None else f'{name} = {{ address = "{address}" }}')
        self.text = "\n".join(lines) + "\n"
        self.description = reading.of_text(self.text)
        self.folders = path / "folders"
        folders.init(self.text, self.description, self.folders, days=1, requests=False)
        for m, name in enumerate(self.names):
            self.write_table(name, self.data.X[self.data.sites == m], self.data.labels[self.data.sites == m])
        self.running: dict[str, subprocess.Popen[bytes]] = {}

    def write_table(self, name, X, labels):
        columns = {f"x{j}": X[:, j] for j in range(X.shape[1])}
        columns["y"] = pa.array([None if label < 0 else f"c{label}" for label in labels], pa.string())
        pa.csv.write_csv(pa.table(columns), self.path / f"{name}.csv")

    def __enter__(self):
        return self

    def __exit__(self, *problem):
        for process in self.running.values():
            if process.poll() is None:
                process.kill()
            process.wait()

    def start(self, *names, options=(), file_limit=None, program=PROGRAM):
        """Start sites, each as a process of its own."""
        command = list(program)
        if file_limit is not None:  # Python ignores the signal of a file that is too large: writing fails
            limit = f"import resource; resource.setrlimit(resource.RLIMIT_FSIZE, ({file_limit}, {file_limit}))"
            command[-1] = f"{limit}; {command[-1]}"
        for name in names or self.names:
            with open(self.path / f"{name}.out", "ab") as out, open(self.path / f"{name}.err", "ab") as err:
                self.running[name] = subprocess.Popen(
                    [*command, "site", "run", str(self.folders / name), "--data", str(self.path / f"{name}.csv"),
                     *options],
                    stdout=out, stderr=err, env={**os.environ, "GAUSSIP_THREADS": "1"},
                )  # fmt: skip

    def signal(self, name, number):
        self.running[name].send_signal(number)
        if number == signal.SIGKILL:
            self.running[name].wait()

    def finish(self, *names, code=0, within=LONG):
        """Wait until sites have ended, all with the same exit code: as long as some of them come further."""
        limit, seen = time.monotonic() + within, 0
        waiting = list(names or self.names)
        while waiting:
            for name in list(waiting):
                found = self.running[name].poll()
                assert found in (None, code), f"{name} ended with {found}, not {code}:\n{self.output(name)}"
                if found is not None:
                    waiting.remove(name)
            if time.monotonic() > limit:
                before, seen = seen, sum(self.status(name).get("exchange", 0) for name in self.names)
                if seen <= before:
                    outputs = "\n".join(f"{name}:\n{self.output(name)}" for name in waiting)
                    raise AssertionError(f"{', '.join(waiting)} did not end:\n{outputs}")
                limit = time.monotonic() + within
            time.sleep(0.02)

    def wait_for_end(self, *names):
        """Wait until sites have ended, in whatever way."""
        for name in names:
            self.running[name].wait(timeout=60)

    def output(self, name):
        """What a site printed so far."""
        return "".join((self.path / f"{name}.{end}").read_text() for end in ("err", "out"))

    def events(self, name, event=None):
        """A site's events so far, of one kind."""
        path = self.folders / name / "events.jsonl"
        lines = path.read_text().splitlines(keepends=True) if path.exists() else []
        records = [json.loads(line) for line in lines if line.endswith("\n")]
        return [record for record in records if event is None or record["event"] == event]

    def status(self, name):
        path = self.folders / name / "status.json"
        return json.loads(path.read_text()) if path.exists() else {}

    def until(self, condition, within=LONG):
        """Wait until something is so."""
        limit = time.monotonic() + within
        while not condition():
            over = all(process.poll() is not None for process in self.running.values())
            if time.monotonic() > limit or (over and not condition()):
                outputs = "\n".join(f"{name}:\n{self.output(name)}" for name in self.running)
                raise AssertionError(f"it did not happen:\n{outputs}")
            for name, process in self.running.items():
                if process.poll() not in (None, 0, -signal.SIGKILL):
                    raise AssertionError(f"{name} ended with {process.returncode}:\n{self.output(name)}")
            time.sleep(0.02)

    def start_frozen(self, frozen):
        """Start all sites, the last one when the others wait for it; it goes on in `crawl` alone."""
        others = [name for name in self.names if name != frozen]
        self.start(*others)
        self.until(lambda: all(self.events(name, "started") for name in others))
        self.start(frozen)
        self.until(lambda: self.events(frozen, "started"))
        self.signal(frozen, signal.SIGSTOP)

    def crawl(self, frozen, until):
        """Let a frozen site run for moments, until something is so: what takes a few exchanges then lasts."""
        limit = time.monotonic() + LONG
        while not until():
            assert time.monotonic() < limit
            assert self.running[frozen].poll() is None, self.output(frozen)
            self.signal(frozen, signal.SIGCONT)
            time.sleep(0.01)
            self.signal(frozen, signal.SIGSTOP)
            time.sleep(0.02)

    def run_folder(self, name):
        """Where a site keeps what it needs to resume its run."""
        return self.folders / name / "runs" / self.description.digest()[:12]

    def began(self, phase, *names):
        """Whether these sites have kept a message of a phase."""
        rings = [self.run_folder(name) / f"{phase}-state.ring" for name in names]
        return all(ring.exists() and any(ring.read_bytes()) for ring in rings)

    def last_phase(self, name):
        """The phase in which a killed site's journal stands; None where it was killed before its first exchange."""
        journal = Journal(self.run_folder(name), NAMES, 4, self.description.task().network.longest_sum)
        last = journal.last()
        journal.close()
        return last and last.phase

    def until_round(self, name, number):
        """Wait until a site has told that it is in that round."""
        self.until(lambda: self.status(name).get("round", 0) >= number)

    def theta(self, name):
        """The weights, means and covariances of a site's model."""
        arrays, _ = read_model(self.folders / name / "model.npz")
        return arrays["weights_"], arrays["means_"], arrays["covariances_"]

    def problem(self):
        """All sites' rows in this process."""
        names = np.array(self.names)[self.data.sites]
        labels = self.data.labels if self.settings["labels"] is not None else None
        return prepare(self.data.X, labels, names, n_components=3, network=self.settings["network"])

    def simulated(self):
        """The same fit with all sites in this process: each site's theta, and the rounds."""
        s, task, problem = self.settings, self.description.task(), self.problem()
        kept = Regularised(s["reg_covar"], 0.0, s.get("min_count", MIN_COUNT))
        begin = starts(problem, 3, s.get("start", "kmeans"), seeds_of(0, 1)[1:], Given(), kept)[0]
        return simulate(
            task.algorithm, begin, problem.rows, task.W, max_rounds=s["max_rounds"], tol=s["tol"],
            reg_covar=s["reg_covar"],
        )  # fmt: skip

    def assert_equal_to(self, run):
        """Every site's model is the simulation's, bit for bit."""
        for m, name in enumerate(self.names):
            for mine, theirs in zip(self.theta(name), run.theta, strict=True):
                np.testing.assert_array_equal(mine, theirs[m])
