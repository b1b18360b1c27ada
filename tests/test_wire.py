"""The messages between sites: what is sent comes back, and whatever comes is read or refused, nothing else."""

from __future__ import annotations

import os
import tracemalloc

import numpy as np
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from gaussip.exchange import wire

RUN = b"12345678"
LIKE = {"mean": np.ones((2, 3)), "max": np.zeros(2), "sum": np.zeros(4, dtype=np.int64)}
WORDS = np.array([-(2**63), -1, 0, 2**63 - 1])
numbers = st.floats(allow_nan=False, allow_infinity=False)
whole = st.integers(0, 2**40)
frames = st.one_of(
    st.builds(wire.Hello, st.just(RUN), whole, st.text(max_size=80), st.text(max_size=20), st.booleans()),
    st.builds(wire.Ask, st.just(RUN), whole, whole),
    st.builds(wire.NotYet, st.just(RUN), whole, whole),
    st.builds(wire.Gone, st.just(RUN), whole, whole),
    st.builds(wire.Done, st.just(RUN), whole, st.booleans()),
    st.builds(
        lambda sender, number, mean, most: wire.Round(
            RUN, sender, number, wire.parts_of({"mean": mean, "max": most, "sum": WORDS})
        ),
        whole, whole, hnp.arrays(float, (2, 3), elements=numbers), hnp.arrays(float, 2, elements=numbers),
    ),
)  # fmt: skip


@given(frames)
def test_a_frame_comes_back(frame):
    assert wire.decode(wire.encode(frame), RUN, 10_000, frame.sender) == frame


@given(hnp.arrays(float, (2, 3), elements=numbers), hnp.arrays(float, 2, elements=st.floats(allow_nan=False)))
def test_numbers_come_back_bit_for_bit(mean, most):
    data = wire.encode(wire.Round(RUN, 1, 2, wire.parts_of({"mean": mean, "max": most, "sum": WORDS})))
    found = wire.message_of(wire.decode(data, RUN, 10_000, 1).parts, LIKE)
    assert found["mean"].tobytes() == mean.tobytes()
    assert found["max"].tobytes() == most.tobytes()
    assert found["sum"].tolist() == WORDS.tolist()


def read(data):
    """What a site does with bytes: read them, or refuse them."""
    try:
        frame = wire.decode(data, RUN, 10_000, 1)
        if isinstance(frame, wire.Round):
            wire.message_of(frame.parts, LIKE)
    except wire.WireError:
        return False
    return True


def mutated(frame, cuts):
    """A frame's bytes with some replaced, removed and doubled."""
    data = bytearray(wire.encode(frame))
    for place, value, kind in cuts:
        at = place % max(1, len(data))
        if kind == 0:
            data[at : at + 1] = bytes([value])
        elif kind == 1:
            del data[at : at + value]
        else:
            data[at:at] = data[at : at + value]
    return bytes(data)


cuts = st.lists(st.tuples(st.integers(0, 500), st.integers(0, 255), st.integers(0, 2)), min_size=1, max_size=6)


@settings(max_examples=1000, deadline=None)
@given(st.binary(max_size=300), frames, cuts)
@example(b"", wire.Done(RUN, 1, True), [(0, 0, 0)])
def test_any_bytes_are_read_or_refused(data, frame, cuts):
    read(data)
    read(wire.MAGIC + wire.VERSION.to_bytes(2, "big") + data)
    read(mutated(frame, cuts))


@pytest.mark.slow
@settings(max_examples=100_000, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.binary(max_size=300), frames, cuts)
def test_any_bytes_are_read_or_refused_a_hundred_thousand_times(data, frame, cuts):
    read(data)
    read(wire.MAGIC + wire.VERSION.to_bytes(2, "big") + data)
    read(mutated(frame, cuts))


@pytest.mark.parametrize(
    "data",
    [
        b"\xdd\xff\xff\xff\xff",  # an array of four thousand million entries
        b"\x95\xa5round\xc4\x0812345678\x01\x02\xdd\x7f\xff\xff\xff",
        b"\x95\xa5round\xc6\xff\xff\xff\xff",  # a string of four gigabytes
        b"\x91" * 5000,  # arrays within arrays
        b"\x95\xa5round\xc4\x0812345678\x01\x02\x91\x93\xa4mean\x92\xce\xff\xff\xff\xff\xce\xff\xff\xff\xff\xc4\x00",
    ],
)
def test_a_small_message_never_asks_for_much_memory(data):
    data = wire.MAGIC + wire.VERSION.to_bytes(2, "big") + data
    read(data)
    tracemalloc.start()
    assert not read(data)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 1_000_000


def test_refusals_say_why():
    message = {"mean": np.ones((2, 3)), "max": np.zeros(2), "sum": WORDS}
    frame = wire.Round(RUN, 1, 2, wire.parts_of(message))
    data = wire.encode(frame)
    reasons = {
        "more than the 100 bytes that": lambda: wire.decode(bytes(101), RUN, 100, 1),
        "not a message of gaussip's": lambda: wire.decode(os.urandom(3) + data, RUN, 10_000, 1),
        "another run": lambda: wire.decode(data, b"87654321", 10_000, 1),
        "says that site number 1 sent it": lambda: wire.decode(data, RUN, 10_000, 2),
        "1 channels, not 3": lambda: wire.message_of(frame.parts[:1], LIKE),
        "'sum' where 'mean' is due": lambda: wire.message_of(frame.parts[::-1], LIKE),
        r"shape \(2, 3\), not '<f8' and \(3, 3\)": lambda: wire.message_of(
            frame.parts, {**LIKE, "mean": np.ones((3, 3))}
        ),
        "'sum' has type '<i8' and shape": lambda: wire.message_of(frame.parts, {**LIKE, "sum": np.zeros(4)}),
        "'mean' holds numbers that are not finite": lambda: wire.message_of(
            wire.parts_of({**message, "mean": np.full((2, 3), np.inf)}), LIKE
        ),
        "'max' holds numbers that are not": lambda: wire.message_of(
            wire.parts_of({**message, "max": np.array([np.nan, 0])}), LIKE
        ),
    }
    for text, refuse in reasons.items():
        with pytest.raises(wire.WireError, match=text):
            refuse()
    infinite = wire.parts_of({**message, "max": np.array([np.inf, -np.inf])})
    assert wire.message_of(infinite, LIKE)["max"][0] == np.inf  # what is not known yet
