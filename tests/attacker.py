"""What one curious site computes from what it receives, following the protocol to the letter."""

from __future__ import annotations

import numpy as np

from gaussip.algorithms import exact
from gaussip.mixture.theta import Theta, to_psi
from gaussip.mixture.units import unit_of


def moments_under_exact(task, start: Theta, received, me: int, sent):
    """Every site's own moments at the start, as psi of its map F_m: what the first exchanges of exact give away.

    In the first step every site sends v_m = x + eta (nu_m F_m(x) - x), and then polynomials in the network's weights
    of all v. The attacker knows the network, so each message is a known combination of the unknown v: as many linear
    equations as messages. It knows all nu_m from the survey, and its own v.

    Parameters
    ----------
    received : by exchange, the messages of its neighbours by their indices
    sent : by exchange, its own messages
    """
    M = len(task.sites)
    surveyed = [here for here in received if all("mean" not in message for message in here.values())]
    size = M * (1 - (-M // exact.BITS))
    table = np.max([message["max"][:size] for here in surveyed for message in here.values()], axis=0).reshape(M, -1)
    plan = exact.plan_of(table)
    share = table[:, -1] / table[:, -1].mean()
    W, mixed, before = task.W.toarray(), np.eye(M), np.zeros((M, M))
    equations, answers = [], []
    growth = plan.growth
    centre, half = (plan.high + plan.low) / 2, max(plan.high - plan.low, 1e-9) / 2
    first = [here for here in received if all("mean" in message for message in here.values())][: plan.first]
    for j, here in enumerate(first, start=1):
        for q, message in here.items():
            equations.append(mixed[q])
            answers.append(message["mean"].ravel())
        scaled = (W @ mixed - centre * mixed) / half
        memory = 0.0 if j == 1 else growth[j - 2] / growth[j] * before
        mixed, before = (1 if j == 1 else 2) * growth[j - 1] / growth[j] * scaled - memory, mixed
    K, f = first[0][next(iter(first[0]))]["mean"].shape
    others = [m for m in range(M) if m != me]
    A = np.array(equations)
    own = next(message["mean"].ravel() for message in sent if "mean" in message)
    left = np.array(answers) - A[:, [me]] * own
    known = np.linalg.lstsq(A[:, others], left, rcond=None)[0]
    x = unit_of(start).standard(to_psi(start))
    found = {}
    for m, v in zip(others, known, strict=True):
        found[m] = (x + (v.reshape(K, f) - x) / exact.STEP) / share[m]
    return found, np.linalg.matrix_rank(A[:, others])


def rows_behind(moments, start: Theta, n_rows: int, tries: int = 60):
    """The rows that have these moments at the start, up to their order: least squares from random guesses.

    Parameters
    ----------
    moments : psi of the site's map at the start, in the data's units
    """
    from scipy.optimize import least_squares

    from gaussip.mixture.density import responsibilities

    p, rng = start.means.shape[1], np.random.default_rng(0)
    upper = np.triu_indices(p)

    def apart(flat):
        X = flat.reshape(n_rows, p)
        share = responsibilities(X, start)[0]
        found = []
        for k, mean in enumerate(start.means):
            z = X - mean
            products = (share[:, k, None, None] * z[:, :, None] * z[:, None, :]).sum(axis=0)[upper]
            found.append(np.concatenate([[share[:, k].sum()], share[:, k] @ X, products]))
        return (np.array(found) / n_rows - moments).ravel()

    best = None
    for _ in range(tries):
        k = rng.choice(len(start.weights), n_rows, p=start.weights)
        guess = start.means[k] + rng.normal(size=(n_rows, p))
        fitted = least_squares(apart, guess.ravel(), xtol=1e-15, ftol=1e-15, gtol=1e-15, max_nfev=300)
        if best is None or fitted.cost < best.cost:
            best = fitted
        if best.cost < 1e-26:
            break
    return best.x.reshape(n_rows, p)
