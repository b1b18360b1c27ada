"""Rows of which some cells are missing, on a CUDA device, in three launches: `gaussip.kernels.array.incomplete`."""

import functools

from gaussip.arrays import Array
from gaussip.kernels.array.incomplete import Groups, Totals
from gaussip.kernels.cuda import nvrtc
from gaussip.kernels.cuda.kernel import real_of, source
from gaussip.mixture.theta import Theta, width


def narrowed(theta: Theta, groups: Groups, centres: Array) -> Theta:
    """The theta of each group, from its site's."""
    weights, means, covariances = (part.contiguous() for part in theta)
    G, p = groups.observed.shape
    A = _components(theta, groups)
    own = Theta(means.new_empty(G, A), means.new_empty(G, A, p), means.new_empty(G, A, p, p))
    shared = (groups.sites, groups.observed, groups.components, centres.contiguous())
    kernel, count = _kernel("narrow", means, A), G * A * p
    nvrtc.launch(kernel, (-(-count // 128),), (128,), weights, means, covariances, *shared, *own, count)
    return own


def added(totals: Totals, sums: Array, log_likelihood: Array, theta: Theta, groups: Groups) -> Totals:
    """The totals with the sums of groups, filled in."""
    means, covariances = theta.means.contiguous(), theta.covariances.contiguous()
    S, K, p = means.shape
    A = _components(theta, groups)
    filled, count = sums.new_empty(sums.shape), len(groups.sites) * A
    kernel = _kernel("fill", means, A)
    given = (means, covariances, groups.sites, groups.observed, groups.components, sums.contiguous())
    nvrtc.launch(kernel, (-(-count // 64),), (64,), *given, filled, count)
    new = Totals(*(part.new_empty(part.shape) for part in totals))
    kernel, many = _kernel("gather", means, A), K * (width(p) + p) + 1
    of_groups = (filled, log_likelihood.contiguous(), groups.observed, groups.components, groups.offsets)
    before = (part.contiguous() for part in totals)
    nvrtc.launch(kernel, (S, -(-many // 128)), (128,), *of_groups, *before, *new)
    return new


def _components(theta: Theta, groups: Groups) -> int:
    return int((theta.weights if groups.components is None else groups.components).shape[-1])


def _kernel(name: str, means: Array, components: int) -> nvrtc.Function:
    K, p = means.shape[-2:]
    return _loaded(name, p, K, components, real_of(means), means.device.index)


@functools.cache
def _loaded(name: str, p: int, K: int, components: int, real: str, device: int) -> nvrtc.Function:
    options = tuple(f"-D{key}={value}" for key, value in {"P": p, "K": K, "A": components, "REAL": real}.items())
    return nvrtc.load(source("features", "algebra", "incomplete"), name, options, device)
