"""What is wrong with a description of a federation: each value with its key, so that an error can name the line."""

import re
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np

from gaussip.errors import FederationError, GaussipError, some
from gaussip.federation.addresses import split_address
from gaussip.federation.description import Description
from gaussip.inference.information import check_size, refuse_nonlinear
from gaussip.mixture.covariance_types import UNSCALABLE, letters_of
from gaussip.privacy import Privacy
from gaussip.rows.basis import check_keep
from gaussip.rows.checks import check_unlabelled_weight, is_unlabelled
from gaussip.rows.labels import EITHER, check_components_per_class
from gaussip.settings import MOMENTS, NOTHING, SETTINGS, broken
from gaussip.starts.mixtures import checked

SETTING_OF = {setting.key: name for name, setting in SETTINGS.items() if setting.key}
CHOICE = ("at_least", "at_most", "criterion")  # keys of a number of components that the sites choose
KEYS_OF: dict[str, tuple[str, ...]] = {
    **{name: (setting.key,) for name, setting in SETTINGS.items() if setting.key},
    **{f"{part}_init": ("start", part) for part in ("weights", "means", "covariances")},
    "y": ("labels",),
    "sample_weight": ("weights",),
}  # where what Python calls so stands in a description
FEWEST = 3  # sites among which a sum hides one
NAME = re.compile(r"[A-Za-z0-9]([A-Za-z0-9_-]*[A-Za-z0-9])?")  # a folder, a part of a certificate's name, a key


def faults(d: Description) -> Iterator[tuple[Any, str]]:
    """What is wrong with single values, with the key of each."""
    if not NAME.fullmatch(d.name) or len(d.name) > 40:
        yield "name", f"name {d.name!r} must be letters, digits, - and _, at most 40: it is part of certificates"
    if len(d.sites) < 2:
        yield "sites", f"a federation has at least two sites, not {len(d.sites)}"
    for site, entry in d.sites.items():
        if not NAME.fullmatch(site) or len(site) + len(d.name) > 60:
            yield ("sites", site), f"site name {site!r} must be letters, digits, - and _: it names a folder"
        if entry.address is not None:
            try:
                split_address(entry.address)
            except FederationError as error:
                yield ("sites", site, "address"), str(error)
        for name in set(entry.lacks) - set(d.features):
            yield ("sites", site, "lacks"), f"site {site} lacks {name!r}, which is not among the features"
        if d.features and set(entry.lacks) >= set(d.features):
            yield ("sites", site, "lacks"), f"site {site} lacks every feature: a site without rows takes no part"
    for name in d.features:
        if all(name in d.sites[site].lacks for site in d.names):
            yield "features", f"no site has {name!r}: all lack it"
    if not isinstance(d.network, str):
        for site in (site for pair in d.network for site in pair):
            if site not in d.sites:
                yield "network", f"the network names a site {site!r} that is not among the sites"
    if not d.features or len(set(d.features)) < len(d.features):
        yield "features", "features must be at least one column, each named once"
    if d.choice is not None:
        yield from _broken(d.choice, CHOICE, "components")
        if d.choice.at_least > d.choice.at_most:
            yield "components", f"there is no number from at_least={d.choice.at_least} to at_most={d.choice.at_most}"
        if d.start not in ("kmeans", "search"):
            yield "start", "where the number of components is chosen, so is the start: leave start out"
    yield from _not_private(d)
    yield from _revealing(d)
    if d.intervals == "plain" and d.unlabelled_weight != 1:
        yield "intervals", 'rows that count in part have robust standard errors: write intervals = "robust"'
    if d.weighting == "equal" and (d.intervals != "none" or d.choice is not None):
        key = "intervals" if d.choice is None else "components"
        yield key, "criteria and standard errors are of all rows: they need weighting = 'rows'"
    if d.shrinkage and d.choice is not None:
        yield (
            "components",
            "criteria count parameters, of which shrinkage takes a part: choose without, fit with it",
        )
    if d.scale and letters_of(d.covariance_type) in UNSCALABLE:
        yield (
            "covariance_type",
            f"scaled features would have {d.covariance_type} covariances, the table's would not: leave scale out, or "
            'use covariance_type = "diag"',
        )
    tables = [
        key for key in ("components", "start", "components_per_class") if not isinstance(getattr(d, key), int | str)
    ]
    yield from _broken(d, [key for key in SETTING_OF if key not in (*CHOICE, *tables)])
    for key, value, most in (("components", d.most, 1000), ("max_rounds", d.max_rounds, 10**12)):
        if value > most:
            yield key, f"{key} must be at most {most}, not {value}"
    for name in d.codes.by_column:
        if name not in d.features:
            yield "na_values", f"na_values has codes of {name!r}, which is not among the features"
    for key in ("labels", "weights"):
        if getattr(d, key) in d.features:
            yield key, f"column {getattr(d, key)!r} cannot be a feature too"
    addresses = [entry.address for entry in d.sites.values() if entry.address is not None]
    for site, entry in d.sites.items():
        if entry.address is not None and addresses.count(entry.address) > 1:
            yield ("sites", site, "address"), f"two sites have the address {entry.address}"
    if (d.labels is None) != (d.classes is None):
        yield "labels" if d.labels else "classes", "labels (a column) and classes (their names) go together"
    if d.classes is not None and len({type(name) for name in d.classes}) > 1:
        yield "classes", "classes mixes words and numbers; use one kind"
    if isinstance(d.components_per_class, dict):
        for name in set(d.components_per_class) - set(map(str, d.classes or ())):
            yield "components_per_class", f"components_per_class has {name!r}, which is not among the classes"
    for known in d.classes or ():
        if isinstance(known, str) and (EITHER in known or is_unlabelled(known) or known != known.strip()):
            yield "classes", f"a class cannot be named {known!r}: in a table that stands for none, or for several"
    if d.classes is None and d.components_per_class != 1:
        yield "components_per_class", "components_per_class needs labels and classes"
    if d.classes is not None and not 0 < len(set(d.classes)) == len(d.classes) <= d.most:
        yield "classes", f"classes must be different names, at most one for each of the {d.most} components"
    if d.start == "labels" and (d.classes is None or (d.components_per_class == 1 and len(d.classes) != d.most)):
        yield "start", "a start from labels needs a class for every component"
    for site in d.without:
        if site not in d.sites:
            yield "without", f"there is no site {site!r} to go on without"
    for before in d.going_on_from:
        if not re.fullmatch(r"[0-9a-f]{12}@\d{1,12}", before):
            yield "going_on_from", f"{before!r} is not a run and round to go on from"
    checks: dict[str, Callable[[], object]] = {
        "components_per_class": lambda: _check_owners(d),
        "covariance_type": lambda: refuse_nonlinear(d.covariance_type) if d.intervals != "none" else None,
        "unlabelled_weight": lambda: check_unlabelled_weight(d.unlabelled_weight, d.labels is not None),
        "intervals": lambda: check_size(d.most, d.n_features) if d.intervals != "none" else None,
        "reduce": lambda: d.reduce is None or check_keep(d.reduce.keep, len(d.features)),
    }
    for key, check in checks.items():
        try:
            check()
        except GaussipError as error:
            yield key, error.worded(as_key)
    if d.reduce is not None and d.reduce.at_most < 1:
        yield "reduce", f"at_most must be at least 1, not {d.reduce.at_most}"
    if not isinstance(d.start, str) and d.reduce is not None:
        yield "start", "a start cannot be given in features that are yet to be agreed on: leave start or reduce out"
    elif not isinstance(d.start, str):
        try:
            checked(d.start.theta(), d.most, len(d.features))
        except GaussipError as error:
            yield key_of(error), error.worded(as_key)
        except ValueError as error:  # rows of different lengths
            yield "start", str(error)
    yield from _unreachable(d)


def _check_owners(d: Description) -> None:
    """Refuse more components of classes than there are components."""
    check_components_per_class(d.components_per_class)
    if d.classes is not None and len(d.classes) <= d.most:
        d.owners()


def _revealing(d: Description) -> Iterator[tuple[str, str]]:
    """What others would learn of a site without the description saying so."""
    if d.gossips and d.reveals != MOMENTS:
        yield (
            "algorithm",
            f"under {d.algorithm} neighbours, and often all sites, can compute a site's own moments, and from them "
            f'the rows of small sites: write reveals = "{MOMENTS}" if the sites trust each other so far, or leave '
            "algorithm out (masked reveals sums over all sites alone)",
        )
    elif not d.hide and d.reveals != MOMENTS:
        yield (
            "hide",
            "without masks every site that passes on a sum sees what others add to it, their own moments: write "
            f'reveals = "{MOMENTS}" if the sites trust each other so far, or leave hide out',
        )
    elif len(d.names) < 3 and d.hide:
        yield (
            "hide",
            "sums hide a site only among at least three: of two, each can subtract its part and has the other's. "
            f'Write hide = false and reveals = "{MOMENTS}" if these two may know it, or find a third site',
        )
    for name in d.features if d.reveals != MOMENTS and d.privacy is None else ():
        without = [site for site in d.names if name in d.sites[site].lacks]
        few = min((without, [site for site in d.names if site not in without]), key=len)
        if 0 < len(few) < FEWEST:
            does = "lack" if few == without else "have"
            yield (
                "features",
                f"only {some(few)} {does + 's' * (len(few) == 1)} {name!r}: what sums say of "
                f"{'rows without it' if few == without else 'it'} is theirs, and each can subtract its own part. "
                f'Write reveals = "{MOMENTS}" if all sites may know so much of them, or leave {name!r} out',
            )


def _not_private(d: Description) -> Iterator[tuple[str, str]]:
    """What does not go with a private fit."""
    if d.privacy is None:
        return
    try:
        privacy = Privacy.of(d.privacy)
        privacy.limits(d.features)
        privacy.shares(len(d.names))
        if privacy.patient is not None and privacy.patient in (*d.features, d.labels, d.weights):
            yield "privacy", f"the column of patients, {privacy.patient!r}, cannot be something else too"
    except GaussipError as error:
        yield "privacy", error.worded(as_key)
    others = {
        "algorithm": (d.algorithm == "masked", "its noise is in masked sums: leave algorithm out"),
        "hide": (d.hide, "its sums must be masked, or single sites' parts, with too little noise, would be seen"),
        "reveals": (d.reveals == NOTHING, "what a site announces has no noise: leave reveals out"),
        "start": (d.start != "search", 'a search would spend privacy on every trial: write start = "kmeans"'),
        "components": (d.choice is None, "choosing their number would spend privacy on every trial: write a number"),
        "shrinkage": (not d.shrinkage, "the target would be another release: leave shrinkage out"),
        "reduce": (d.reduce is None, "principal components of all rows are not private: leave reduce out"),
        "scale": (not d.scale, "its features are always scaled: leave scale out"),
        "intervals": (d.intervals == "none", "its standard errors come with the model: leave intervals out"),
        "going_on_from": (
            not d.going_on_from or d.going_on_from[-1].endswith("@0"),
            "it cannot continue a checkpoint, and can start over: gaussip site go-on DIR --from 0, at every site",
        ),
    }
    for key, (fits, why) in others.items():
        if not fits:
            yield key, f"a private fit does not take this: {why}"


def as_key(setting: str, value: str) -> str:
    """A setting, alone or with a value, as a description has it."""
    key = str(KEYS_OF.get(setting, (setting,))[-1])
    return f"{key} = {value}" if value else key


def key_of(error: GaussipError) -> tuple[str, ...]:
    """Where the value stands that an error is about; nowhere where it is about several."""
    return () if error.setting is None else KEYS_OF.get(error.setting, ())


def _broken(values: Any, keys: Iterable[str], table: str = "") -> Iterator[tuple[str, str]]:
    """Values that are not what their settings must be."""
    for key in keys:
        value = getattr(values, key)
        sentence = broken(SETTING_OF[key], value)
        if sentence is not None:
            other = ", or a table with weights, means and covariances" if key == "start" else ""
            yield table or key, f"{key} must be {sentence}{other}, not {value!r}"


def _unreachable(d: Description) -> Iterator[tuple[Any, str]]:
    """Pairs of neighbours of whom neither accepts the other's call."""
    try:
        task = d.task()
    except GaussipError:
        return  # reported elsewhere
    pairs = np.argwhere(np.triu((task.W + task.W.T).toarray(), 1) > 0)
    for site, other in ((task.sites[m], task.sites[q]) for m, q in pairs):
        if d.sites[site].address is None and d.sites[other].address is None:
            yield (
                ("sites", site),
                f"neither {site} nor {other} has an address, so they cannot talk; give one of them one",
            )
