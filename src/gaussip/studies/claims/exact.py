"""What is claimed of exact network EM."""

import numpy as np

from gaussip.studies.claims.base import Evidence, claim
from gaussip.studies.costs import arrivals
from gaussip.studies.results import Results


@claim("exact-reaches-the-pooled-estimate", "Exact comes within 1e-6 of the pooled estimate on every data set")
def _reaches(results: Results) -> Evidence:
    for cell in results.others(method="exact"):
        first = arrivals(results, cell, 1e-6)
        there, worst = int(np.isfinite(first).sum()), first.max()
        yield there == first.size, f"{results.describe(cell)}: {there} of {first.size}, worst in round {worst:g}"


@claim("exact-needs-fewest-rounds", "To 1e-2 of the pooled estimate exact needs fewer rounds than MNEM, DEM and NGD")
def _fewest(results: Results) -> Evidence:
    for cell in results.others(method="exact"):
        ours = float(np.median(arrivals(results, cell, 1e-2)))
        rivals = [
            other for other in results.others()
            if other._replace(method=cell.method, rounds=cell.rounds) == cell and other != cell
        ]  # fmt: skip
        for other in rivals:
            theirs = float(np.median(arrivals(results, other, 1e-2)))
            yield ours < theirs, f"{results.describe(other)}: {theirs:g} rounds; exact {ours:g}"
