"""The settings of a fit in one table: default, constraint, help, and the names on the command line and in TOML."""

import math
from collections.abc import Callable, Mapping, Sequence
from numbers import Integral, Real
from typing import Any, NamedTuple

from gaussip.errors import SettingError, Text

WEIGHTINGS = ("rows", "equal")
MIXINGS = ("row", "metropolis")
STARTS = ("kmeans", "labels", "search")
COVARIANCES = (
    "full", "tied", "diag", "spherical", "EII", "EEI", "VEI", "EVI", "VEE", "EEV", "VEV", "EVV",
    "VVV", "EEE", "VVI", "VII",
)  # fmt: skip
REFUSE, KEEP = ("refuse", "keep")
NOTHING, COUNTS, MOMENTS = REVEALS = ("nothing", "row counts", "site moments")
LARGEST_SEED = 2**32 - 1


class Constraint(NamedTuple):
    """What a value must be."""

    sentence: str
    holds: Callable[[Any], bool]


class Setting(NamedTuple):
    """One setting of a fit, of choosing K or eta, or of intervals."""

    default: Any
    help: str
    must_be: Constraint | None = None
    option: str = ""  #: on the command line
    key: str = ""  #: in the description of a federation


def _whole(least: int, most: float = math.inf) -> Constraint:
    limits = f"of at least {least}" if most == math.inf else f"from {least} to {most}"
    return Constraint(f"a whole number {limits}", lambda v: _is_number(v, Integral) and least <= v <= most)


def _number(limits: str, holds: Callable[[float], bool]) -> Constraint:
    return Constraint(f"a number {limits}", lambda v: _is_number(v, Real) and holds(float(v)))


def _is_number(value: Any, kind: type) -> bool:
    return isinstance(value, kind) and not isinstance(value, bool)


def _choice(choices: Sequence[str]) -> Constraint:
    return Constraint(f"one of {', '.join(choices)}", lambda v: isinstance(v, str) and v in choices)


_AT_LEAST_0 = _number("of at least 0", lambda v: 0 <= v < math.inf)
_YES_OR_NO = Constraint("True or False", lambda v: type(v).__name__ in ("bool", "bool_"))  # Python's or NumPy's
_SHARE = _number("in [0, 1), the target's share of each covariance", lambda v: 0 <= v < 1)

SETTINGS: dict[str, Setting] = {
    "n_components": Setting(1, "Number of components K.", _whole(1), "--components", "components"),
    "components_per_class": Setting(
        1, "Components of each class, where rows have labels.", _whole(1), "--components-per-class",
        "components_per_class",
    ),
    "covariance_type": Setting(
        "full", "full, tied, diag, spherical, or mclust's EII, EEI, VEI, EVI, VEE, EEV, VEV or EVV.",
        _choice(COVARIANCES), "--covariance-type", "covariance_type",
    ),
    "algorithm": Setting(
        "masked", "masked, exact, mnem, nnem, dem, ngd, local or em.", option="--algorithm", key="algorithm"
    ),
    "network": Setting(
        "ring", "ring, star, random-regular(4), circle, ..., or a .csv with columns sender, hearer.",
        option="--network", key="network",
    ),
    "mixing": Setting("row", "row or metropolis.", _choice(MIXINGS), "--mixing", "mixing"),
    "eta": Setting(
        0.01, "Step of mnem, dem and ngd.", _number("in (0, 1]", lambda v: 0 < v <= 1), "--eta", "eta"
    ),
    "max_rounds": Setting(1000, "Most rounds.", _whole(1), "--rounds", "max_rounds"),
    "tol": Setting(1e-6, "Stop when the change is at most this.", _AT_LEAST_0, "--tol", "tol"),
    "reg_covar": Setting(1e-6, "Added to every variance.", _AT_LEAST_0, "--reg-covar", "reg_covar"),
    "shrinkage": Setting(
        0.0, "Share of every covariance that is the start's mean covariance, in [0, 1).", _SHARE,
        "--shrinkage", "shrinkage",
    ),
    "degenerate": Setting(
        REFUSE, "A fit in which nothing but reg_covar keeps a component from collapsing: refuse or keep.",
        _choice((REFUSE, KEEP)), "--degenerate", "degenerate",
    ),
    "unlabelled_weight": Setting(
        1.0, "Weight of an unlabelled row, in [0, 1]; a labelled row has weight 1.",
        _number("in [0, 1]", lambda v: 0 <= v <= 1), "--unlabelled-weight", "unlabelled_weight",
    ),
    "accelerate": Setting(
        True, "Fewer rounds than plain EM takes, for masked and em.", _YES_OR_NO,
        "--accelerate/--no-accelerate", "accelerate",
    ),
    "hide": Setting(True, "Whether sites mask their parts of sums.", _YES_OR_NO, key="hide"),
    "reveals": Setting(
        NOTHING, "What others may know of a site beside sums over all sites.", _choice(REVEALS), key="reveals"
    ),
    "weighting": Setting(
        "rows", "rows (the pooled target) or equal.", _choice(WEIGHTINGS), "--weighting", "weighting"
    ),
    "init_params": Setting("kmeans", "kmeans, labels or search.", _choice(STARTS), "--start", "start"),
    "n_init": Setting(1, "Number of starts; the best fit is kept.", _whole(1), "--n-init"),
    "device": Setting("cpu", "cpu or cuda.", option="--device"),
    "random_state": Setting(
        0, "Seed of starts and random networks.",
        _whole(0, LARGEST_SEED)._replace(holds=lambda v: not isinstance(v, Integral) or 0 <= int(v) <= LARGEST_SEED),
        "--seed", "seed",
    ),
    "verbose": Setting(
        0, "Log progress every so many rounds.",
        Constraint("a whole number of at least 0", lambda v: isinstance(v, Integral) and int(v) >= 0),
    ),
    "at_least": Setting(1, "The first number of components.", _whole(1), "--min", "at_least"),
    "at_most": Setting(8, "The last number of components.", _whole(1), "--max", "at_most"),
    "criterion": Setting("bic", "bic, aic or icl.", _choice(("bic", "aic", "icl")), "--criterion", "criterion"),
    "rounds": Setting(
        None, "The most rounds there may be; the least error within them is sought.",
        Constraint("a whole number of at least 1, or None", lambda v: v is None or _whole(1).holds(v)), "--rounds",
    ),
    "extra": Setting(
        0.1, "Share that the bias may add to the mean squared error.",
        _number("above 0, for instance 0.1", lambda v: 0 < v < math.inf), "--extra",
    ),
    "level": Setting(
        0.95, "Share of such intervals that cover the truth.",
        _number("between 0 and 1, such as 0.95", lambda v: 0 < v < 1), "--level",
    ),
    "intervals": Setting(
        "none", "Standard errors, once the fit has converged.", _choice(("none", "plain", "robust")), key="intervals"
    ),
    "min_count": Setting(
        5, "The fewest rows, of all sites together, whose sums may be known.", _whole(1, 10**9), "--min-count",
        "min_count",
    ),
    "privacy": Setting(
        None, "Differential privacy: epsilon, delta, bounds of each feature, and how many sites may collude.",
        key="privacy",
    ),
    "epsilon": Setting(
        None, "Differential privacy with this epsilon, for instance 4.",
        _number("between 0.05 and 50, such as 4", lambda v: 0.05 <= v <= 50), "--epsilon",
    ),
    "delta": Setting(
        1e-6, "Its delta.", _number("between 1e-12 and 0.01, such as 1e-6", lambda v: 1e-12 <= v <= 0.01), "--delta"
    ),
    "colluding": Setting(
        1, "Sites that may share what they know with one that reads the sums.", _whole(0), "--colluding"
    ),
    "fsync_every": Setting(32, "Exchanges between two writes to disk.", _whole(1, 10_000), key="fsync_every"),
    "checkpoint_every": Setting(
        None, "Rounds between checkpoints; by default 10 of masked, 500 of others.",
        Constraint(
            "a whole number of at least 1",
            lambda v: v is None or (_is_number(v, Integral) and 1 <= v <= 10**12),
        ),
        key="checkpoint_every",
    ),
}  # fmt: skip


def default(name: str) -> Any:
    """The default of a setting."""
    return SETTINGS[name].default


def broken(name: str, value: Any) -> str | None:
    """What a setting must be, where a value is not; None where it is, or where only others can judge it."""
    must_be = SETTINGS[name].must_be
    return None if must_be is None or must_be.holds(value) else must_be.sentence


def check(**values: Any) -> None:
    """Refuse values of settings that cannot work."""
    for name, value in values.items():
        sentence = broken(name, value)
        if sentence is not None:
            text = Text(f"{{{name}:{{value!r}}}} must be {{sentence}}", value=value, sentence=sentence)
            raise SettingError(text, setting=name)


def check_choice(name: str, value: Any, choices: Sequence[str]) -> None:
    """Refuse a value of something other than a setting that is not one of its choices."""
    if value not in choices:
        text = Text(
            f"{{{name}:{{value!r}}}} is not one of {{choices}}", value=value, choices=", ".join(map(repr, choices))
        )
        raise SettingError(text, setting=name)


def as_options(values: Mapping[str, Any]) -> list[str]:
    """The words of a command that sets these; defaults are left out, but for K, which commands need."""
    words = []
    for name, value in values.items():
        if name == "n_components" or value != default(name):
            option = SETTINGS[name].option
            words += [option.split("/")[not value]] if "/" in option else [option, written(value)]
    return words


def written(value: Any) -> str:
    """A value as people write it; a mapping as ill=4,well=2."""
    if isinstance(value, Mapping):
        return ",".join(f"{name}={number}" for name, number in value.items())
    return f"{value:.10g}" if isinstance(value, float) else str(value)
