"""A table of patients with nothing odd in it, for tests that put something in."""

import numpy as np
import pandas as pd

SITES = np.array(["Basel", "Bern", "Chur", "Genf"])


def patients(seed=0, n=800):
    """Four sites whose patients differ a little, and the site of each."""
    rng = np.random.default_rng(seed)
    m = rng.integers(4, size=n)
    apart = rng.normal(size=4)[m]
    columns = {
        "age": np.clip(np.round(60 + 12 * rng.normal(size=n) + 5 * apart), 30, 90),
        "height": np.round(171 + 9 * rng.normal(size=n) + 2 * apart),
        "weight": np.round(np.exp(np.log(75) + 0.18 * rng.normal(size=n) + 0.02 * apart), 1),
        "glucose": np.round(np.exp(np.log(105) + 0.3 * rng.normal(size=n) + 0.1 * apart)),
        "chol": np.round(np.exp(np.log(230) + 0.2 * rng.normal(size=n))),
        "crp": np.round(np.exp(1 + rng.normal(size=n) + apart), 1),
        "score": rng.normal(size=n) + 2 * apart,
        "temperature": np.round(37 + 0.5 * rng.normal(size=n) + 0.1 * apart, 1),
    }
    return pd.DataFrame(columns), SITES[m]
