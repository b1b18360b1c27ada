"""Whether a step that shrinks spares rounds: `fit_shrinking` against the recommended eta kept constant.

    python benchmarks/shrinking.py [--settings 18] [--first 100]

Settings are drawn as in benchmarks/choosing_eta.py. Printed are the rounds of both, and how far each ends from the
pooled estimate, in standard errors.
"""

from __future__ import annotations

import argparse
import warnings

from choosing_eta import CAP, Case, estimates
from gaussip.selection import fit_shrinking


def main() -> None:
    """Print a line for each setting."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--settings", type=int, default=18)
    parser.add_argument("--first", type=int, default=100, help="the first seed")
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    print("| setting | eta | rounds, constant | shrinking | ratio | away, constant | shrinking |")
    print("|---" * 7 + "|")
    for seed in range(given.first, given.first + given.settings):
        case = Case(seed)
        mixture = case.mixture.set_params(eta=case.step.eta, tol=case.step.tol, max_rounds=CAP)
        rows = (case.data.X, case.labels)
        fits = [case.fit(), fit_shrinking(mixture, *rows, sites=case.data.sites)]
        rounds = [fit.n_rounds_ for fit in fits]
        away = [case.distance(estimates(fit), case.step.pooled) for fit in fits]
        name = f"{case.network} {case.setting.spread}"
        print(
            f"| {name} | {case.step.eta:.2g} | {rounds[0]} | {rounds[1]} | {rounds[1] / rounds[0]:.2f} "
            f"| {away[0]:.2f} | {away[1]:.2f} |",
            flush=True,
        )


if __name__ == "__main__":
    main()
