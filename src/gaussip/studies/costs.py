"""Rounds and bytes to given distances from the pooled estimate: of methods that were run, and of two others.

Flooding sends every site's statistics to every other site, in as many rounds for each EM iteration as the network
is wide; a tree sums them at one site and sends the sum back. Both make pooled EM's iterations, so their costs follow
from the whole sample's run and the network.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import networkx as nx
import numpy as np

from gaussip.arrays import NDArray
from gaussip.mixture.theta import width
from gaussip.networks import listening, mixing_weights
from gaussip.studies.cells import Cell
from gaussip.studies.results import Results


class Cost(NamedTuple):
    """What one method needs to come within one distance of the pooled estimate: medians over data sets."""

    setting: str
    network: str
    method: str
    level: float
    reached: int  #: data sets
    data_sets: int
    rounds: float  #: infinite where fewer than half arrive
    worst: float
    bytes: float  #: over the whole network


def costs(results: Results) -> list[Cost]:
    """The costs of every cell that was run, and of the two reckoned methods, setting by setting."""
    spent: list[Cost] = []
    for (setting, network), cells in _settings(results).items():
        for cell in cells:
            numbers = results.numbers(cell)
            for level in results.design.levels:
                first = arrivals(results, cell, level)
                sent = np.interp(first, numbers["rounds"], numbers["bytes"])
                sent = np.where(np.isfinite(first), sent, np.inf)
                spent.append(_cost(setting, network, cell.method.label, level, first, sent))
        spent += list(_reckoned(results, setting, network, cells[0]))
    return spent


def _settings(results: Results) -> dict[tuple[str, str], list[Cell]]:
    """The cells that were run by what they differ in beside their method."""
    groups: dict[tuple[str, str], list[Cell]] = {}
    for cell in results.others():
        if cell.network and cell.pooled not in results.missing:
            values = results.design.varying_of(cell)
            shown = ", ".join(f"{key} {value}" for key, value in values.items() if key not in ("eta", "network"))
            groups.setdefault((shown, cell.network), []).append(cell)
    return groups


def arrivals(results: Results, cell: Cell, level: float) -> NDArray:
    """The first round looked at in which each data set's distance is at most the level, (R,); infinite if none."""
    numbers = results.numbers(cell)
    near, rounds = numbers["distance"] <= level, numbers["rounds"]
    return np.where(near.any(axis=0), rounds[np.argmax(near, axis=0)].astype(float), np.inf)


def _reckoned(results: Results, setting: str, network: str, cell: Cell) -> Iterator[Cost]:
    M = cell.setting.n_sites
    W = mixing_weights(network, range(M), cell.mixing, results.design.seed)
    graph = nx.from_scipy_sparse_array(listening(W))
    vector = 8 * cell.setting.n_components * width(cell.setting.n_features)
    ways = {
        "flooding (reckoned)": (nx.diameter(graph), M * (M - 1) * vector),
        "tree sums (reckoned)": (2 * nx.radius(graph), 2 * (M - 1) * vector),
    }
    for name, (rounds, sent) in ways.items():
        for level in results.design.levels:
            iterations = arrivals(results, cell.pooled, level)
            yield _cost(setting, network, name, level, iterations * rounds, iterations * sent)


def _cost(setting: str, network: str, name: str, level: float, rounds: NDArray, sent: NDArray) -> Cost:
    reached = int(np.isfinite(rounds).sum())
    middle, amount = float(np.median(rounds)), float(np.median(sent))
    return Cost(setting, network, name, level, reached, rounds.size, middle, float(rounds.max()), amount)


def cost_table(spent: Sequence[Cost]) -> tuple[list[str], list[list[str]]]:
    """The costs with a line for each method and columns for the levels."""
    levels = sorted({cost.level for cost in spent}, reverse=True)
    lines: dict[tuple[str, str, str], dict[float, Cost]] = {}
    for cost in spent:
        lines.setdefault((cost.setting, cost.network, cost.method), {})[cost.level] = cost

    def shown(number: float, digits: int = 0) -> str:
        return f"{number:,.{digits}f}" if np.isfinite(number) else ""

    columns = ["setting", "network", "method"]
    columns += [f"rounds to {level:g}" for level in levels] + [f"MB to {level:g}" for level in levels]
    rows = []
    for key, by_level in lines.items():
        rounds = [shown(by_level[level].rounds) for level in levels]
        rows.append([*key, *rounds, *(shown(by_level[level].bytes / 1e6, 2) for level in levels)])
    return columns, rows
