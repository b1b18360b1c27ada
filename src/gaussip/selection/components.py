"""How many components: one pass over K, each K begun by splitting the last, the criteria agreed on by all sites."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from gaussip.errors import DataError, LabelError, SettingError, StartError, Text
from gaussip.exchange.questions import Replicated, answered
from gaussip.mixture.covariance_types import FULL, letters_of, named
from gaussip.mixture.theta import Theta
from gaussip.mixture.units import Unit
from gaussip.rows.checks import check_mean_weight, check_row_weights, column_name
from gaussip.rows.frames import as_table, by_column_name
from gaussip.rows.labels import encode_labels
from gaussip.rows.problem import prepare, seeds_of
from gaussip.selection.criteria import Line, line_of
from gaussip.settings import check, default
from gaussip.starts.facts import ask_facts, refuse_few_labelled
from gaussip.starts.rare import without_rare
from gaussip.starts.search import Best, over
from gaussip.tabular import Table


class Selection(NamedTuple):
    """What a choice of K ends with."""

    lines: list[Line]
    thetas: list[Theta]  #: the best mixture of each K
    criterion: str
    ended: str  #: why the pass ended before its last K, empty if it did not

    @classmethod
    def of(cls, found: Sequence[Best], unit: Unit, criterion: str, names: Sequence[str] | None = None) -> Selection:
        """The choice that searches lead to, one for each covariance type; ``names`` are those of the features."""
        features = [column_name(j, names) for j in range(len(unit.spread))]
        pairs = [(climbed, best.covariance_type) for best in found for climbed in best.mixtures]
        lines = [line_of(climbed, unit.log_volume, features, kind) for climbed, kind in pairs]
        ends = {best.covariance_type: best.ended for best in found if best.ended}
        ended = found[0].ended
        if len(found) > 1:
            ended = Text("; ".join(f"{kind}: {{{kind}}}" for kind in ends), **ends)
        return cls(lines, [unit.original_theta(climbed.theta) for climbed, _ in pairs], criterion, ended)

    def refuse_degenerate(self) -> None:
        """Refuse a choice between Ks that are all degenerate."""
        if not all(line.degenerate for line in self.lines):
            return
        numbers_seen = [line.n_components for line in self.lines]
        first, last = min(numbers_seen), max(numbers_seen)
        numbers = f"{first} components" if first == last else f"any number of components from {first} to {last}"
        reasons = "; ".join(dict.fromkeys(line.degenerate for line in self.lines))
        raise DataError(
            f"with {numbers} some component is degenerate ({reasons}): its rows have the same value there, or are "
            "too few, and its likelihood depends on reg_covar alone",
            remedy=Text("leave such features out, look at fewer components, or raise {reg_covar}"),
        )

    @property
    def sound(self) -> list[int]:
        """The places of Ks without a degenerate component, by rising criterion."""
        places = [place for place, line in enumerate(self.lines) if not line.degenerate]
        return sorted(places, key=lambda place: float(getattr(self.lines[place], self.criterion)))

    @property
    def best(self) -> int:
        """The place of the least criterion, of the Ks without a degenerate component."""
        return self.sound[0]

    @property
    def n_components(self) -> int:
        """The K chosen."""
        return self.lines[self.best].n_components

    @property
    def covariance_type(self) -> str:
        """The covariance type chosen."""
        return self.lines[self.best].covariance_type

    @property
    def margin(self) -> float:
        """By how much the criterion of the next best line is larger; infinite where there is no other."""
        values = [float(getattr(self.lines[place], self.criterion)) for place in self.sound]
        return values[1] - values[0] if len(values) > 1 else math.inf

    @property
    def theta(self) -> Theta:
        """The best mixture of the K chosen: a start for a fit."""
        return self.thetas[self.best]

    @property
    def several_types(self) -> bool:
        """Whether more than one covariance type was looked at."""
        return len({line.covariance_type for line in self.lines}) > 1

    def table(self) -> Table:
        """The criteria of each K, the best marked: a table that prints."""
        measures = {"log-likelihood": "log_likelihood", "BIC": "bic", "AIC": "aic", "ICL": "icl"}
        columns = {"K": "n_components", "parameters": "n_parameters", **measures}
        if self.several_types:
            columns = {"K": "n_components", "type": "covariance_type"} | columns
        cells: dict[str, list[Any]] = {
            name: [getattr(line, field) for line in self.lines] for name, field in columns.items()
        }
        if len(self.sound) < len(self.lines):
            for name in measures:
                cells[name] = ["-" if line.degenerate else getattr(line, measures[name]) for line in self.lines]
            cells["degenerate"] = [line.degenerate for line in self.lines]
        return Table(cells, formats=dict.fromkeys(measures, ".2f"), marked=self.best)

    def to_frame(self) -> Any:
        """The table as a `pandas.DataFrame`."""
        return self.table().to_frame()

    def __str__(self) -> str:
        return str(self.table())

    def __repr__(self) -> str:
        return str(self)

    def _repr_html_(self) -> str:
        return self.table()._repr_html_()


def choose_components(
    X: Any,
    y: Any = None,
    *,
    sites: Any = None,
    sample_weight: Any = None,
    at_least: int = default("at_least"),
    at_most: int = default("at_most"),
    covariance_types: Sequence[str] = (FULL,),
    criterion: str = default("criterion"),
    reg_covar: float = default("reg_covar"),
    device: str = default("device"),
    random_state: Any = None,
    min_count: int = default("min_count"),
    watch: Callable[[int, int], None] = lambda K, sums: None,
) -> Selection:
    """Choose the number of components across sites.

    For each K many starts are judged, and the best climbed from, by pooled EM, whose sums hide their parts
    (`gaussip.exchange.questions`): none learns another's likelihood. Sites in processes of their own choose the same.
    A K is never chosen if every mixture found for it has a degenerate component, whose rows are all the same in some
    direction: its likelihood depends on ``reg_covar`` alone. What is found for a K does not depend on the range.

    Parameters
    ----------
    X : (n, p) array or data frame
    y : (n,) labels, -1, None or NaN where unlabelled; K is then at least the number of classes
    sites : (n,) name of the site of each row
    y, sites, sample_weight : each may be the name of a column of the frame X, which is then not a feature
    at_least, at_most : the first and last K; smaller ones are climbed through on the way
    covariance_types : the types to choose from, each with every K
    criterion : {"bic", "aic", "icl"}
    min_count : the fewest rows, of all sites, whose sums may be known
    watch : called after each sum with its K, also below ``at_least``, and their number so far
    """
    check(criterion=criterion, at_least=at_least, at_most=at_most, reg_covar=reg_covar, min_count=min_count)
    types = _types(covariance_types)
    X, y, sites, sample_weight = by_column_name(X, y, sites, sample_weight)
    rows, names = as_table(X)
    v = check_row_weights(sample_weight, len(rows))
    check_mean_weight(None if v is None else [v])
    refuse_range(at_least, at_most, float(len(rows) if v is None else v.sum()), rows.shape[1], types)
    n_classes = len(encode_labels(y, len(rows), len(rows)).classes)
    if n_classes > at_most:
        text = Text("{n} classes are labelled, more than {at_most:{most}} components", n=n_classes, most=at_most)
        raise LabelError(text, setting="at_most")
    rows, y, sites, sample_weight = without_rare(rows, y, sites, sample_weight, min_count)
    problem = prepare(
        rows, y, sites, sample_weight, n_components=at_most, network="complete", device=device, columns=names,
    )  # fmt: skip
    seed, numbers = seeds_of(random_state, 1)[1], range(max(at_least, n_classes), at_most + 1)
    held, K, steps = problem.held, numbers[0], 0
    least = held.least(min_count)

    def looked(number: int) -> None:
        nonlocal K
        K = number

    def counted(words: int) -> None:
        nonlocal steps
        steps += 1
        watch(K, steps)

    def chosen() -> Replicated[Selection]:
        facts = yield from ask_facts(rows.shape[1], held.n_classes, min_count=least, names=names)
        refuse_few_labelled(facts, least, problem.classes.tolist())
        found, reg, refused = [], reg_covar / facts.spread**2, None
        for kind in types:
            try:
                found.append((yield from over(numbers, facts, seed, reg, least, covariance_type=kind, look=looked)))
            except StartError as error:
                refused = error
                found.append(Best([], str(error), kind))
        if refused is not None and not any(best.mixtures for best in found):
            raise refused
        selection = Selection.of(found, facts.unit, criterion, names)
        selection.refuse_degenerate()
        return selection

    return answered(chosen(), held, held.n_sites, counted)


def _types(given: Sequence[str]) -> list[str]:
    """Covariance types as they are reported, each once."""
    if isinstance(given, str) or not len(given):
        text = "covariance_types={given!r} must be a list of types, such as ['full', 'tied']"
        raise SettingError(Text(text, given=given), setting="covariance_types")
    for kind in given:
        check(covariance_type=kind)
    return list(dict.fromkeys(map(named, given)))


def refuse_range(
    at_least: int, at_most: int, n_rows: float, n_features: int, covariance_types: Sequence[str] = (FULL,)
) -> None:
    """Refuse Ks that are none, or more than the rows can tell apart."""
    if at_least > at_most:
        text = Text("there is no K from {at_least:{first}} to {at_most:{last}}", first=at_least, last=at_most)
        raise SettingError(text, setting="at_least")
    turned = any(letters_of(kind)[-1] == "V" for kind in covariance_types)  # each component in its own way
    each = n_features + 1 if turned else 2
    needed = at_most * each
    if needed > n_rows:
        text = Text(
            "{at_most:{last}} components need at least {needed} rows of {p} features ({each} each), and there are "
            "{n:g}: {at_most:{possible}} can be distinguished",
            last=at_most, needed=needed, p=n_features, each=each, n=n_rows,
            possible=int(n_rows // each),
        )  # fmt: skip
        raise SettingError(text, setting="at_most")
