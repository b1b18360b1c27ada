"""Small problems shared by the tests."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pytest

from gaussip import NetworkGaussianMixture
from gaussip.mixture.theta import Theta
from gaussip.rows.rows import Rows
from gaussip.studies.simulation_model import Dataset, Setting, draw, paper_start


@pytest.fixture(scope="session")
def radiography() -> Path:
    """The folder of the COVID-19 Radiography Database, in the one that GAUSSIP_DATA names."""
    if not os.environ.get("GAUSSIP_DATA"):
        pytest.skip("GAUSSIP_DATA does not name a folder of real data")
    return Path(os.environ["GAUSSIP_DATA"]) / "radiography"


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


@pytest.fixture(scope="session")
def data() -> Dataset:
    """Six equal sites sorted by class, well separated, 20% labelled."""
    return draw(Setting(n_rows=1200, n_sites=6, n_features=3, delta=4, labelled=0.2), 1)


@pytest.fixture(scope="session")
def fitted(data: Dataset) -> NetworkGaussianMixture:
    """A converged fit of them by named sites."""
    names = np.array(["Genf", "Bern", "Chur", "Biel", "Thun", "Zug"])[data.sites]
    mixture = NetworkGaussianMixture(3, eta=0.05, max_rounds=2000, init_params="labels", random_state=0)
    return mixture.fit(data.X, data.labels, sites=names)


@pytest.fixture(scope="session")
def by_sites(data: Dataset) -> tuple[NetworkGaussianMixture, Any, Any]:
    """A fit of them by named sites with row weights, the name of each row's site, and the weights."""
    names = np.array(["Genf", "Bern", "Chur", "Biel", "Thun", "Zug"])[data.sites]
    v = np.random.default_rng(0).uniform(0.5, 2, len(names))
    mixture = NetworkGaussianMixture(3, init_params="labels", random_state=0, tol=1e-8)
    return mixture.fit(data.X, data.labels, sites=names, sample_weight=v), names, v


@pytest.fixture(scope="session")
def table_data() -> Dataset:
    """Four sites, far apart: what the tables hold."""
    return draw(Setting(n_rows=600, n_sites=4, n_features=2, delta=5, labelled=0.3), 1)


@pytest.fixture(scope="session")
def columns(table_data: Dataset) -> dict[str, Any]:
    """A table of patients."""
    words = np.array(["mild", "none", "severe"])[table_data.classes]
    return {
        "hospital": [f"H{m}" for m in table_data.sites],
        "age": table_data.X[:, 0],
        "dose": table_data.X[:, 1],
        "diagnosis": [w if k else None for w, k in zip(words.tolist(), table_data.labels >= 0, strict=True)],
    }


@pytest.fixture(scope="session")
def table(tmp_path_factory: pytest.TempPathFactory, columns: dict[str, Any]) -> Path:
    """The same as a CSV file."""
    path = tmp_path_factory.mktemp("tables") / "patients.csv"
    pa.csv.write_csv(pa.table(columns), path)
    return path
