"""Numbers as words modulo 2^64: sums that do not depend on the order, to the last bit."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from scipy import stats

from gaussip.algorithms.summed import LIMBS
from gaussip.errors import DataError
from gaussip.exchange.codes import Fixed, Raw, Veiled, Wide
from gaussip.exchange.questions import PIECE
from gaussip.inference.information import COUNTED
from gaussip.starts.facts import PRECISE

numbers = st.floats(-1e200, 1e200, allow_nan=False)


@given(hnp.arrays(float, hnp.array_shapes(min_dims=2, max_dims=2, max_side=12), elements=numbers))
def test_wide_sums_are_exact_and_rounded_once(values):
    """Against fsum, which is exact; what is below 2^-256 is cut off."""
    found = Wide().decode(Wide().encode(values, len(values)).sum(axis=0))
    whole = np.ldexp(np.trunc(np.ldexp(values, 256)), -256)
    assert found.tolist() == [math.fsum(column) for column in whole.T.tolist()]
    assert Wide().total(values.T).tolist() == found.tolist()


@given(hnp.arrays(float, (5, 3), elements=st.floats(-1e12, 1e12)), st.randoms())
def test_limbs_of_any_number_add_up_in_any_order(values, order):
    code = Wide(60, 4)
    words = list(code.encode(values, 5))
    first = sum(words)
    order.shuffle(words)
    assert (sum(words) == first).all()
    np.testing.assert_allclose(code.decode(first), values.sum(axis=0), rtol=1e-13, atol=1e-12)
    assert code.total(values.T).tolist() == code.decode(first).tolist()


@given(hnp.arrays(float, (7, 4), elements=st.floats(-1e3, 1e3)))
def test_fixed_sums_are_within_half_a_step_for_each_site(values):
    code = Fixed(40)
    found = code.decode(code.encode(values, 7).sum(axis=0))
    np.testing.assert_allclose(found, values.sum(axis=0), rtol=0, atol=7 * 2.0**-41 + 1e-12)


def test_each_number_may_have_its_own_resolution():
    code = Fixed(np.array([45, 0, 20]))
    values = np.array([[0.125, 1e15, -7.5], [0.25, 2e15, 0.5]])
    assert code.decode(code.encode(values, 2).sum(axis=0)).tolist() == [0.375, 3e15, -7.0]


@pytest.mark.parametrize("wrong", [np.nan, np.inf, -np.inf, 2.0**17])
def test_what_could_overflow_is_refused(wrong):
    """Each may be within the limit, but not the sum of so many."""
    with pytest.raises(DataError, match="not a finite number below"):
        Fixed(45).encode(np.array([0.0, wrong]), 2)
    Fixed(45).encode(np.array([0.0, 2.0**17 - 1]), 2)
    with pytest.raises(DataError, match="not a finite number below"):
        Wide(60, 3).encode(np.array([0.0, wrong * 2.0**40]), 2)


def test_one_site_s_bits_reach_all():
    values = np.array([math.pi, -1e-300, 5e-324, 1.7e308, 0.0])
    parts = np.stack([np.zeros(5), values, np.zeros(5)])
    found = Raw().decode(Raw().encode(parts, 3).sum(axis=0))
    assert found.tobytes() == values.tobytes()


@pytest.mark.parametrize("code", [Fixed(45), Wide(60, 4)])
def test_where_a_site_has_no_numbers_the_total_says_nothing_of_the_others(code):
    """Nor would the difference to a second sum say anything of that site."""
    veiled = Veiled(code)
    values = np.array([[0.25, -3.0, 0.0], [0.0, 0.0, 1.0], [1.5, 2.0, 0.0]])
    words = [veiled.encode(values, 3) for _ in range(200)]
    assert len(np.unique([one[1] for one in words])) == 200 * veiled.words(3)  # all are chance
    first = np.array([one.sum(axis=0)[0] for one in words]).view(np.uint64) / 2.0**64
    assert stats.kstest(first, "uniform").pvalue > 1e-3
    decoded = veiled.decode(words[0].sum(axis=0))
    assert np.isnan(decoded[:2]).all()
    assert decoded[2] == 1.0
    whole = values[[0, 2]]
    np.testing.assert_array_equal(veiled.decode(veiled.encode(whole, 3).sum(axis=0)), whole.sum(axis=0))


def test_limbs_say_no_more_than_the_sum():
    """Two pairs of numbers with one sum: no bit of the sum of limbs is more likely for one of them."""
    code, tops = Wide(60, 4), []
    for pair in ((1000.0, -999.0), (0.5, 0.5)):
        words = np.stack([code.encode(np.array([[x] for x in pair]), 2).sum(axis=0) for _ in range(4000)])
        assert {float(code.decode(one)[0]) for one in words} == {1.0}
        tops.append(words)
    for limb in range(4):
        assert stats.ks_2samp(tops[0][:, limb], tops[1][:, limb]).pvalue > 1e-3
        assert len(np.unique(tops[0][:, limb])) > 3900


def test_a_long_part_is_cut_between_numbers():
    """A site that is restarted between two pieces splits the numbers of the second again."""
    for code in (Wide(), LIMBS, PRECISE, COUNTED):
        assert PIECE % code.words(1) == 0
