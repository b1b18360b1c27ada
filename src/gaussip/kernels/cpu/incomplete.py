"""Rows of which some cells are missing, compiled: as `gaussip.kernels.array.incomplete`, group by group."""

import numpy as np

from gaussip.arrays import Array, NDArray
from gaussip.kernels.array.incomplete import Groups, Totals
from gaussip.kernels.cpu.compiling import compiled
from gaussip.mixture.theta import Theta


def narrowed(theta: Theta, groups: Groups, centres: Array) -> Theta:
    """The theta of each group, from its site's."""
    G, p = groups.observed.shape
    components = _components(theta, groups)
    K = components.shape[1]
    out = Theta(np.empty((G, K)), np.empty((G, K, p)), np.empty((G, K, p, p)))
    _narrow(_in_order(theta), groups.sites, groups.observed, components, np.ascontiguousarray(centres), out)
    return out


def added(totals: Totals, sums: Array, log_likelihood: Array, theta: Theta, groups: Groups) -> Totals:
    """The totals with the sums of groups, filled in."""
    new = Totals(*(np.array(part) for part in totals))
    components = _components(theta, groups)
    _add(_in_order(theta), groups.sites, groups.observed, components, sums, log_likelihood, new)
    return new


def _in_order(theta: Theta) -> Theta:
    return Theta(*(np.ascontiguousarray(part) for part in theta))


def _components(theta: Theta, groups: Groups) -> NDArray:
    if groups.components is not None:
        return np.asarray(groups.components)
    K = theta.weights.shape[-1]
    return np.broadcast_to(np.arange(K), (len(groups.sites), K))


@compiled(nogil=True, error_model="numpy")
def _narrow(
    theta: Theta, sites: NDArray, observed: NDArray, components: NDArray, centres: NDArray, out: Theta
) -> None:
    G, p = observed.shape
    for g in range(G):
        s = sites[g]
        for a in range(components.shape[1]):
            k = components[g, a]
            out.weights[g, a] = theta.weights[s, k]
            for i in range(p):
                seen = observed[g, i]
                out.means[g, a, i] = theta.means[s, k, i] if seen else centres[g, i]
                for j in range(p):
                    if seen and observed[g, j]:
                        out.covariances[g, a, i, j] = theta.covariances[s, k, i, j]
                    else:
                        out.covariances[g, a, i, j] = 1.0 if i == j else 0.0


@compiled(nogil=True, error_model="numpy")
def _add(
    theta: Theta,
    sites: NDArray,
    observed: NDArray,
    components: NDArray,
    sums: NDArray,
    log_likelihood: NDArray,
    totals: Totals,
) -> None:
    G, p = observed.shape
    f = sums.shape[2]
    place = np.empty((p, p), dtype=np.int64)  # of an entry in the vech
    n = 1 + p
    for i in range(p):
        for j in range(i, p):
            place[i, j] = place[j, i] = n
            n += 1
    order, room = np.empty(p, dtype=np.int64), (np.empty((p, p)), np.empty((p, p)), np.empty((p, p)))
    row = np.empty(f)
    for g in range(G):
        s, first, last = sites[g], 0, p
        for i in range(p):  # the observed first
            if observed[g, i]:
                order[first] = i
                first += 1
        last = first
        for i in range(p):
            if not observed[g, i]:
                order[last] = i
                last += 1
        totals.log_likelihood[s] += log_likelihood[g]
        for a in range(components.shape[1]):
            k = components[g, a]
            for n in range(f):
                row[n] = sums[g, a, n]
            if first < p:
                _fill(theta.means[s, k], theta.covariances[s, k], order, first, place, row, room)
            for n in range(f):
                totals.sums[s, k, n] += row[n]
            for i in range(first):
                totals.observed[s, k, order[i]] += row[0]


@compiled(nogil=True, error_model="numpy")
def _fill(
    mean: NDArray,
    covariance: NDArray,
    order: NDArray,
    first: int,
    place: NDArray,
    row: NDArray,
    room: tuple[NDArray, NDArray, NDArray],
) -> None:
    """Fill in the features after the ``first`` in ``order``; NaN where the covariance is not positive definite."""
    p = len(mean)
    root, slope, cross = room
    for a in range(p):  # the Cholesky factor, in that order, with the inverse of its diagonal on the diagonal
        i = order[a]
        for b in range(a + 1):
            left = covariance[i, order[b]]
            for n in range(b):
                left -= root[a, n] * root[b, n]
            if b < a:
                root[a, b] = left * root[b, b]
            elif left > 0.0 and left < np.inf:
                root[a, a] = 1.0 / np.sqrt(left)
            else:
                root[a, a] = np.nan
    for a in range(first, p):  # B L_oo = L_uo
        for b in range(first - 1, -1, -1):
            left = root[a, b]
            for n in range(b + 1, first):
                left -= slope[a, n] * root[n, b]
            slope[a, b] = left * root[b, b]
    S0 = row[0]
    for a in range(first, p):
        i, moved = order[a], 0.0
        for b in range(first):
            j = order[b]
            moved += slope[a, b] * (row[1 + j] - S0 * mean[j])
            total = 0.0
            for n in range(first):
                total += slope[a, n] * row[place[order[n], j]]
            cross[a, b] = total
        row[1 + i] = S0 * mean[i] + moved
    for a in range(first, p):
        i = order[a]
        for b in range(first):
            row[place[i, order[b]]] = cross[a, b]
        for b in range(first, a + 1):
            total = 0.0
            for n in range(first):
                total += cross[a, n] * slope[b, n]
            inner = 0.0
            for n in range(first, b):
                inner += root[a, n] * root[b, n]
            inner += (root[a, b] if b < a else 1.0 / root[b, b]) / root[b, b]
            row[place[i, order[b]]] = total + S0 * inner
