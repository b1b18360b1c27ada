"""A network of sites: who sends to whom and, if given, what each site holds."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import networkx as nx
import numpy as np
from scipy import sparse

from gaussip.arrays import NDArray
from gaussip.plots.drawing import Drawing, colour, style

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def draw_network(
    W: Any,
    sites: Sequence[Any],
    *,
    title: str = "",
    shares: NDArray | None = None,
    classes: Sequence[str] = (),
    ax: Axes | None = None,
) -> Drawing:
    """Draw who sends to whom; an arrow runs from the sender to the receiver.

    ``shares`` (M, C), what each site holds, are drawn as a pie at its node, with ``classes`` (C,) in the legend.
    """
    weights = sparse.csr_array(W).tocoo()
    pairs = [(int(q), int(m), float(w)) for m, q, w in zip(*weights.coords, weights.data, strict=True) if m != q]
    graph = nx.DiGraph()
    graph.add_nodes_from(range(len(sites)))
    graph.add_edges_from((q, m) for q, m, _ in pairs)
    two_way = all(graph.has_edge(m, q) for q, m in graph.edges)
    at = _positions(graph)
    size = min(500.0, 5000.0 / len(sites))
    with style() as plt:
        axes = plt.subplots(figsize=(4.2, 4.2))[1] if ax is None else ax
        nx.draw_networkx_edges(
            graph, at, ax=axes, edge_color="#8a8a8a", arrows=True, node_size=700 if shares is not None else size,
            arrowstyle="-" if two_way else "-|>", width=1.0, connectionstyle="arc3,rad=0.0",
        )  # fmt: skip
        if shares is None:
            nx.draw_networkx_nodes(graph, at, ax=axes, node_size=size, node_color="#0b6e99")
            names = {m: str(site) for m, site in enumerate(sites)}
            nx.draw_networkx_labels(graph, at, names, ax=axes, font_size=min(8.0, size / 35), font_color="white")
        else:
            _pies(axes, at, shares, sites, classes)
        axes.set_title(title)
        axes.set_axis_off()
        axes.set_aspect("equal")
        axes.margins(0.15)
    table = {
        "sender": [sites[q] for q, _, _ in pairs],
        "hearer": [sites[m] for _, m, _ in pairs],
        "weight": [w for _, _, w in pairs],
    }
    return Drawing(axes, table)


def _positions(graph: Any) -> dict[int, Any]:
    """The hub of a star in the middle, everything else on a circle."""
    degrees = dict(graph.degree())
    M = len(degrees)
    hub = max(degrees, key=lambda m: degrees[m])
    star = M > 3 and degrees[hub] == 2 * (M - 1) and all(d == 2 for m, d in degrees.items() if m != hub)
    around = [m for m in graph if not (star and m == hub)]
    at = nx.circular_layout(graph.subgraph(around))
    if star:
        at[hub] = np.zeros(2)
    return dict(at)


def _pies(axes: Any, at: dict[int, Any], shares: Any, sites: Sequence[Any], classes: Sequence[str]) -> None:
    from matplotlib.patches import Circle, Wedge

    colours = [colour(k) for k in range(shares.shape[1])]
    for m, (x, y) in at.items():
        axes.add_patch(Circle((x, y), 0.15, color="white", zorder=2))
        turn = 90.0
        for share, shade in zip(shares[m] / shares[m].sum(), colours, strict=True):
            axes.add_patch(Wedge((x, y), 0.14, turn, turn + 360 * share, color=shade, zorder=3, linewidth=0))
            turn += 360 * share
        axes.text(x * 1.27, y * 1.27, str(sites[m]), ha="center", va="center", fontsize=8)
    handles = [Wedge((0, 0), 1, 0, 1, color=shade) for shade in colours]
    axes.legend(handles, classes, loc="center", fontsize=9)
