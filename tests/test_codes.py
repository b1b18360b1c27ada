"""Numbers as words modulo 2^64: sums that do not depend on the order, to the last bit."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from gaussip.errors import DataError
from gaussip.exchange.codes import Fixed, Raw, Wide

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
    code = Wide(60, 3)
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
        Wide(60, 3).encode(np.array([0.0, wrong * 2.0**50]), 2)


def test_one_site_s_bits_reach_all():
    values = np.array([math.pi, -1e-300, 5e-324, 1.7e308, 0.0])
    parts = np.stack([np.zeros(5), values, np.zeros(5)])
    found = Raw().decode(Raw().encode(parts, 3).sum(axis=0))
    assert found.tobytes() == values.tobytes()
