"""The demonstration's second part: the eight sites as processes, one of which is killed on the way."""

import shutil
import signal
import socket
import subprocess
import sys
import time
import warnings
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from gaussip.errors import FileError, PausedError
from gaussip.estimator import NetworkGaussianMixture
from gaussip.federation import folders, reading
from gaussip.node.logs import read_status
from gaussip.rows.table_files import write_table
from gaussip.studies.demo import N_SITES, REG_COVAR, patients

VICTIM = 3  # the site that is killed
BEGUN = 20  # exchanges after which it is
TOL = 1e-7
LONGEST = 300.0  # seconds
MARK = ".made-by-the-demonstration"

TOML = """\
name = "breast-cancer"
components = 2
features = {features}
labels = "diagnosis"
classes = ["benign", "malignant"]
network = "ring"
start = "search"
max_rounds = {rounds}
tol = {tol}
reg_covar = {reg_covar}

[sites]
{sites}
"""


class Outcome(NamedTuple):
    """What the sites ended with."""

    sites: list[str]
    rounds: int
    exchanges: int
    seconds: float  #: from the first start to the last model
    killed: str
    killed_in: int  #: the exchange
    equal: list[bool]  #: whether each site's model is the simulation's, bit for bit
    folder: Path


def run_sites(
    out: Path, rounds: int, watch: Callable[[list[dict[str, Any]], str], None] = lambda _statuses, _note: None
) -> Outcome:
    """Run the sites, kill and restart one, and compare their models with the simulation's.

    ``watch`` is called now and then with every site's status and what happens.
    """
    folder = out / "sites"
    if folder.exists() and not (folder / MARK).exists():
        raise FileError(f"{folder} exists, and the demonstration did not make it; choose another --out")
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    (folder / MARK).touch()
    names = [f"site-{m + 1}" for m in range(N_SITES)]
    train, _, sites, labels, _ = patients()
    features = [f"x{j}" for j in range(train.X.shape[1])]
    here = {name: sites == f"site {m + 1}" for m, name in enumerate(names)}
    words = np.array(["malignant", "benign", ""])[labels]
    for name, mine in here.items():
        columns = {feature: train.X[mine, j] for j, feature in enumerate(features)}
        write_table(folder / f"{name}.csv", {**columns, "diagnosis": words[mine]})
    text = TOML.format(
        features=features, rounds=rounds, tol=TOL, reg_covar=REG_COVAR,
        sites="\n".join(f'{name} = {{ address = "127.0.0.1:{port}" }}' for name, port in free_ports(names).items()),
    )  # fmt: skip
    (folder / "federation.toml").write_text(text, encoding="utf-8")
    folders.init(text, reading.of_text(text), folder / "folders", days=1, requests=False)
    began = time.monotonic()
    killed = _run(folder, names, watch)
    seconds = time.monotonic() - began
    mixture = NetworkGaussianMixture(
        2, network="ring", max_rounds=rounds, tol=TOL, reg_covar=REG_COVAR, init_params="search", random_state=0
    )
    numbered = np.concatenate([np.full(mine.sum(), name) for name, mine in here.items()])
    X = np.concatenate([train.X[mine] for mine in here.values()])
    y = np.concatenate([np.where(words[mine] == "", None, words[mine]) for mine in here.values()])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # with few --rounds
        mixture.fit(X, y, sites=numbered)
    equal = []
    for m, name in enumerate(names):
        model = NetworkGaussianMixture.load(folder / "folders" / name / "model.npz")
        mine = (model.weights_, model.means_, model.covariances_)
        simulated = (mixture.site_weights_[m], mixture.site_means_[m], mixture.site_covariances_[m])
        equal.append(all(np.array_equal(a, b) for a, b in zip(mine, simulated, strict=True)))
    exchanges = (read_status(folder / "folders" / names[0]) or {})["exchange"]
    return Outcome(names, mixture.n_rounds_, exchanges, seconds, names[VICTIM], killed, equal, folder)


def free_ports(names: list[str]) -> dict[str, int]:
    """For each name a free port of this machine."""
    with ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in names]
        for listener in sockets:
            listener.bind(("127.0.0.1", 0))
        return {name: listener.getsockname()[1] for name, listener in zip(names, sockets, strict=True)}


def _run(folder: Path, names: list[str], watch: Callable[[list[dict[str, Any]], str], None]) -> int:
    """All sites to their end; the exchange in which one was killed."""
    running: dict[str, subprocess.Popen[bytes]] = {}

    def start(name: str) -> None:
        command = [sys.executable, "-m", "gaussip", "site", "run", str(folder / "folders" / name)]
        with open(folder / f"{name}.log", "ab") as log:
            running[name] = subprocess.Popen(
                [*command, "--data", str(folder / f"{name}.csv")], stdout=log, stderr=subprocess.STDOUT
            )

    victim, killed, note = names[VICTIM], 0, "starting"
    limit = time.monotonic() + LONGEST
    try:
        for name in names:
            start(name)
        while any(process.poll() is None for process in running.values()):
            statuses = [read_status(folder / "folders" / name) or {"site": name} for name in names]
            watch(statuses, note)
            reached = statuses[VICTIM].get("exchange", 0)
            if not killed and reached >= BEGUN and running[victim].poll() is None:
                running[victim].send_signal(signal.SIGKILL)
                running[victim].wait()
                killed, note = reached, f"{victim} was killed (SIGKILL) after exchange {reached}, and started again"
                start(victim)
            failed = [name for name, process in running.items() if process.poll() not in (None, 0)]
            if failed or time.monotonic() > limit:
                which = failed[0] if failed else victim
                raise PausedError(f"{which} did not finish; {folder / which}.log says why")
            time.sleep(0.1)
    finally:
        for process in running.values():
            if process.poll() is None:
                process.kill()
            process.wait()
    if not killed:
        raise PausedError("the sites were done before one of them could be killed; try again")
    return killed
