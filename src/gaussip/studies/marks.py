"""The rounds that a study looks at."""

from __future__ import annotations

import numpy as np

LOOKS = 60  # unless a design asks for more


def marks(rounds: int, looks: int = LOOKS) -> list[int]:
    """The rounds that are looked at: spaced evenly on a logarithmic scale, with the round numbers among them."""
    even = np.rint(np.geomspace(1, rounds, looks)).astype(int).tolist()
    plain = [digit * 10**power for power in range(len(str(rounds))) for digit in (1, 2, 3, 5)]
    return sorted({*even, *(mark for mark in plain if mark <= rounds)})
