"""What noisy releases add up to: against another library's accountant, which integrates the privacy loss itself."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from gaussip.privacy.accounting import delta_of, epsilon_of, mu_of, together
from gaussip.privacy.guarantee import GAUSSIAN, ROW, Guarantee, Privacy

DELTAS = (1e-3, 1e-5, 1e-6, 1e-9)
FINE = 1e-4  # the accountant's intervals of the privacy loss

# epsilon at DELTAS of Gaussian mechanisms with noise multipliers 1 / mu, composed; printed by dp-accounting 0.6.0:
# PLDAccountant(value_discretization_interval=1e-4), .compose(GaussianDpEvent(1 / mu)) for each, .get_epsilon(delta)
PRINTED = {
    (0.05,): (0.084017693, 0.16004212, 0.18921322, 0.26019679),
    (0.1,): (0.1975340, 0.3406694, 0.39685743, 0.53514831),
    (0.25,): (0.59200672, 0.92634152, 1.0607019, 1.3956157),
    (0.5,): (1.3522763, 1.9930914, 2.2540847, 2.9097324),
    (1.0,): (3.1386706, 4.3771781, 4.8865541, 6.1739351),
    (2.0,): (7.5812799, 9.9972562, 10.997151, 13.534772),
    (4.0,): (19.624121, 24.381611, 26.356964, 31.381840),
    (0.3, 0.4): (1.3522763, 1.9930914, 2.2540847, 2.9097325),
    (0.1, 0.2, 0.2): (0.7353386, 1.1317749, 1.2917100, 1.6912524),
    (0.5, *[0.05] * 9): (1.4239772, 2.0914173, 2.3634480, 3.0471163),
    (1.0, 0.5, 0.25, 0.125): (3.7440457, 5.1629761, 5.7474685, 7.2261854),
    (0.14, 0.14, 0.25, *[0.3] * 6, *[0.6] * 6): (6.0121861, 8.0452773, 8.8856229, 11.016445),
}


@pytest.mark.parametrize("mus", PRINTED, ids=lambda mus: f"{len(mus)} of {max(mus)}")
def test_epsilon_is_another_accountant_s(mus):
    """Also where several releases with other noise are composed, which it does by convolution."""
    found = [epsilon_of(together(mus), delta) for delta in DELTAS]
    np.testing.assert_allclose(found, PRINTED[mus], rtol=1e-3)
    back = [mu_of(epsilon, delta) for epsilon, delta in zip(PRINTED[mus], DELTAS, strict=True)]
    np.testing.assert_allclose(back, together(mus), rtol=1e-3)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("mus", PRINTED, ids=lambda mus: f"{len(mus)} of {max(mus)}")
def test_that_accountant_still_says_so(mus):
    """Where it is installed."""
    event = pytest.importorskip("dp_accounting.dp_event")
    accountant = pytest.importorskip("dp_accounting.pld.pld_privacy_accountant")
    ledger = accountant.PLDAccountant(value_discretization_interval=FINE)
    for mu in mus:
        ledger.compose(event.GaussianDpEvent(1 / mu))
    found = [float(ledger.get_epsilon(delta)) for delta in DELTAS]
    np.testing.assert_allclose(found, PRINTED[mus], rtol=1e-6)
    np.testing.assert_allclose(found, [epsilon_of(together(mus), delta) for delta in DELTAS], rtol=1e-3)


@pytest.mark.parametrize("mu", [0.3, 1.0, 2.5])
def test_delta_is_the_integral_of_what_exceeds_epsilon(mu):
    """The definition: the integral of what the density with a row has beyond e^epsilon times that without it."""
    x = np.linspace(-12, 12 + mu, 2_000_001)
    one, other = stats.norm.pdf(x - mu), stats.norm.pdf(x)
    for epsilon in (0.0, 0.5, 2.0, 4.0):
        direct = np.trapezoid(np.maximum(one - math.exp(epsilon) * other, 0.0), x)
        assert delta_of(epsilon, mu) == pytest.approx(direct, rel=1e-6, abs=1e-14)


@given(st.floats(0.01, 100), st.floats(-34, math.log(0.01)))
def test_they_are_each_other_s_inverse(epsilon, log_delta):
    """For whatever the settings allow."""
    delta = math.exp(log_delta)
    mu = mu_of(epsilon, delta)
    assert delta_of(epsilon, mu) == pytest.approx(delta, rel=1e-6)
    assert epsilon_of(mu, delta) == pytest.approx(epsilon, rel=1e-6)


@given(st.floats(1e-3, 20), st.floats(1e-3, 20), st.floats(0, 50))
def test_more_mu_needs_more_delta(one, other, epsilon):
    least, most = sorted((one, other))
    assert delta_of(epsilon, least) <= delta_of(epsilon, most) * (1 + 1e-9) + 1e-300
    assert delta_of(epsilon + 0.1, most) <= delta_of(epsilon, most) * (1 + 1e-9)


def test_the_ends_are_finite():
    for mu in (1e-9, 1e-6, 1e-3, 1.0, 30.0, 1e3):
        for epsilon in (0.0, 1e-9, 1.0, 1e3, 1e6):
            assert 0 <= delta_of(epsilon, mu) <= 1
        for delta in (1e-300, 1e-15, 0.01):
            assert 0 <= epsilon_of(mu, delta) < 2e6
    assert delta_of(1e6, 1e-6) == 0.0
    assert delta_of(0.0, 1e3) == pytest.approx(1.0)
    assert epsilon_of(0.0, 1e-6) == 0.0
    assert epsilon_of(1e-9, 1e-6) == 0.0  # delta alone is enough: 2 Phi(mu / 2) - 1 is below it
    assert delta_of(0.0, 1e-6) == pytest.approx(math.erf(1e-6 / math.sqrt(8)), rel=1e-6)
    assert 0 < mu_of(0.01, 1e-15) < mu_of(100, 0.01) < 100


@given(st.lists(st.floats(1e-6, 10), min_size=1, max_size=40), st.integers(0, 40))
def test_releases_may_be_added_up_in_any_groups(mus, cut):
    assert together(mus) == pytest.approx(math.hypot(*mus), rel=1e-12)
    parts = [part for part in (mus[:cut], mus[cut:]) if part]
    assert together(together(part) for part in parts) == pytest.approx(together(mus), rel=1e-12)
    assert together(reversed(mus)) == together(mus)


def test_the_budget_is_kept():
    """What a fit may spend guarantees what was asked for, and a little of delta is left."""
    privacy = Privacy.of({"epsilon": 4, "delta": 1e-6, "bounds": [0, 1]})
    assert delta_of(4.0, privacy.mu) < GAUSSIAN * 1e-6
    releases = [("features", privacy.mu * 0.6, 3), ("moments", privacy.mu * 0.8, 3)]
    guarantee = Guarantee.of(privacy, releases)
    assert 3.999 < guarantee.epsilon < 4
    assert (guarantee.neighbours, guarantee.colluding, guarantee.delta) == (ROW, 1, 1e-6)
    seeded = Privacy.of({"epsilon": 4, "bounds": [0, 1], "noise_seed": 3})
    assert Guarantee.of(seeded, releases).epsilon == math.inf
