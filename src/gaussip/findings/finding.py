"""What a diagnosis says: a name, the numbers it rests on, a sentence, and what to do, as a command."""

import json
import math
import shlex
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from gaussip.algorithms import has_step
from gaussip.findings.evidence import PYTHON, SITE, Evidence
from gaussip.privacy import Privacy
from gaussip.settings import SETTINGS, as_options, written

BEGINNING = ("init_params", "n_init")  # what does not matter to a fit that goes on


class Finding(NamedTuple):
    """One thing that went wrong, or that makes a fit untrustworthy."""

    name: str
    evidence: dict[str, Any]  #: the numbers, by what they are
    sentence: str
    remedy: str  #: a command, or a call of Python where an estimator was diagnosed
    rounds: tuple[int, int]  #: from and to which the history shows it
    measure: str  #: the measure of the history that shows it
    expected: tuple[float, int] | None = None  #: the change, and the round in which it is expected to be that

    def as_json(self) -> dict[str, Any]:
        """For programs."""
        kept = ("name", "evidence", "sentence", "remedy", "rounds", "measure")
        return {name: getattr(self, name) for name in kept}


def rounded_up(number: float) -> int:
    """A number of rounds to ask for, in two digits: half as many more as predicted, since a run stops by itself."""
    size = 10 ** max(0, math.floor(math.log10(max(1.0, number))) - 1)
    return int(math.ceil(1.5 * number / size) * size)


def again(
    evidence: Evidence, *, goes_on: bool = False, labels: bool = False, table: str = "TABLE", **changes: Any
) -> str:
    """The command, or the call, that fits once more with some settings changed.

    Parameters
    ----------
    goes_on : whether to go on from where the run stopped
    labels : whether there are labels that were not there before
    table : the name of the rows' file on the command line
    """
    labels = labels or len(evidence.classes) > 0
    alone = not evidence.by_site
    if evidence.source == SITE:
        return _at_sites(evidence, changes)
    if evidence.source == PYTHON:
        if goes_on != bool(evidence.settings["warm_start"]):
            changes |= {"warm_start": goes_on}
        given = ", ".join(f"{name}={value!r}" for name, value in changes.items())
        rows = ["X", *["y"] * labels, *["sites=sites"] * (not alone)]
        return f"mixture{f'.set_params({given})' * bool(given)}.fit({', '.join(rows)})"
    names = [name for name, setting in SETTINGS.items() if setting.option and name in evidence.settings]
    settings = {name: evidence.settings[name] for name in names}
    settings |= ({"algorithm": "em"} if alone else {}) | changes
    words = ["gaussip", "fit", table, *["--sites", "COLUMN"] * (not alone), *["--labels", "COLUMN"] * labels]
    if evidence.features and not any("," in name for name in evidence.features):
        words += ["--features", ",".join(evidence.features)]
    unused = {"eta": not has_step(settings["algorithm"]), "random_state": settings["random_state"] is None}
    unused |= dict.fromkeys(BEGINNING, goes_on)
    if not isinstance(settings["network"], str):  # a graph or a matrix is a file on the command line
        settings["network"] = "EDGES.csv"
    words += as_options({name: value for name, value in settings.items() if not unused.get(name)})
    if evidence.private:
        assert evidence.theta is not None
        words += _as_private(evidence.settings["privacy"], evidence.features, evidence.theta.means.shape[1])
    words += ["--start", evidence.path] if goes_on else []
    return shlex.join([*words, "--out", "NEW.npz"])


def _as_private(privacy: Mapping[str, Any], features: Sequence[str], n_features: int) -> list[str]:
    """The options of a private fit; noise that can be drawn again has none."""
    names = features or [f"column {j}" for j in range(n_features)]
    limits = Privacy.of(privacy).limits(names)
    pairs = [f"{low:.10g}:{high:.10g}" for low, high in limits.tolist()]
    each = ",".join(f"{name}={pair}" for name, pair in zip(names, pairs, strict=True))
    bounds = pairs[0] if len(set(pairs)) == 1 else each
    options = {"epsilon": privacy["epsilon"]}
    options |= {name: privacy[name] for name in ("delta", "colluding") if name in privacy}
    patient = ["--patient", privacy["patient"]] if privacy.get("patient") else []
    return [*as_options(options), "--bounds", bounds, *patient]


def _in_toml(value: Any) -> str:
    if isinstance(value, Mapping):
        return "{ " + ", ".join(f"{json.dumps(str(name))} = {number}" for name, number in value.items()) + " }"
    return json.dumps(value) if isinstance(value, str) else written(value)


def _at_sites(evidence: Evidence, changes: dict[str, Any]) -> str:
    """Sites run what all agreed on: a change is one of the description's, and begins a new run."""
    lines = "; ".join(f"{SETTINGS[name].key} = {_in_toml(value)}" for name, value in changes.items())
    agreed = f"agree on {lines} in every site's federation.toml, then at every site: " if lines else ""
    return f"{agreed}gaussip site run {shlex.quote(evidence.path)} --data TABLE"
