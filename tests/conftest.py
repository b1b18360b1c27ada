"""Small problems shared by the tests."""

from __future__ import annotations

import numpy as np
import pytest

from gaussip.data.generate import Dataset, Setting, draw, paper_start
from gaussip.parameters import Theta
from gaussip.rows import Rows


@pytest.fixture(scope="session")
def dataset() -> Dataset:
    """The paper's model, small: 5 unequal sites sorted by class, 20% labelled."""
    return draw(Setting(n_rows=1500, n_sites=5, n_features=3, size_ratio=4.0, labelled=0.2), 7)


@pytest.fixture(scope="session")
def rows(dataset: Dataset) -> Rows:
    return Rows.of_sites(dataset.by_site(dataset.X), dataset.by_site(dataset.labels), None, 3)


@pytest.fixture(scope="session")
def start(dataset: Dataset) -> Theta:
    return paper_start(dataset.truth, 0.2, np.random.default_rng(3))
