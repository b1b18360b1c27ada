"""Models on disk: arrays and a JSON description in one .npz file, never pickle."""

import os
from numbers import Integral
from typing import Any, TypeVar

import networkx as nx
import numpy as np
from scipy import sparse

from gaussip import __version__
from gaussip.errors import ModelFileError
from gaussip.files.archive import read, write
from gaussip.mixture.covariance_types import FULL
from gaussip.networks.weights import in_order
from gaussip.privacy import Guarantee
from gaussip.simulation.history import History

KEPT = ("weights_", "means_", "covariances_", "site_weights_", "site_means_", "site_covariances_",
        "sites_", "site_mass_", "classes_", "class_of_component_")  # fmt: skip
Model = TypeVar("Model")


def save(model: Any, path: str | os.PathLike[str]) -> None:
    """Write a fitted estimator."""
    arrays = {name: getattr(model, name) for name in KEPT}
    arrays |= {f"history_{name}": values for name, values in model.history_.items()}
    if hasattr(model, "feature_names_in_"):
        arrays["feature_names_in_"] = model.feature_names_in_
    if model.private_covariance_ is not None:
        arrays["private_covariance_"] = model.private_covariance_
    if model.shrinkage_target_ is not None:
        arrays["shrinkage_target_"] = model.shrinkage_target_
    description = {
        "gaussip": __version__,
        "origin": model.origin_,
        "covariance_type": model.covariance_type_,
        "settings": settings_to_json(model.get_params(deep=False), model.sites_.tolist()),
        "n_rounds": model.n_rounds_,
        "converged": model.converged_,
        "privacy": None if model.privacy_ is None else model.privacy_.as_json(),
    }
    write(path, arrays, description)


def load(kind: type[Model], path: str | os.PathLike[str]) -> Model:
    """The estimator of that class in a file."""
    arrays, description = read(path)
    if description.get("what") == "basis":
        raise ModelFileError(f"{path} is a basis, not a model: it reduces rows to principal components")
    try:
        model: Any = kind(**settings_from_json(description["settings"]))
        model.history_ = {name: arrays.pop(f"history_{name}") for name in History._fields}
        model.n_rounds_, model.converged_ = description["n_rounds"], description["converged"]
        model.origin_ = description["origin"]
        model.covariance_type_ = description.get("covariance_type", FULL)
        for name in KEPT:
            setattr(model, name, arrays.pop(name))
    except KeyError as error:
        raise ModelFileError(f"{path} is not a gaussip model: it holds no {error}") from error
    except TypeError as error:
        raise ModelFileError(f"{path} is not a gaussip model: {error}") from error
    if "feature_names_in_" in arrays:
        model.feature_names_in_ = arrays["feature_names_in_"].astype(object)
    model.shrinkage_target_ = arrays.get("shrinkage_target_")
    model.private_covariance_ = arrays.get("private_covariance_")
    given = description.get("privacy")
    model.privacy_ = None if given is None else Guarantee.of_json(given)
    model.n_features_in_ = model.means_.shape[1]
    result: Model = model
    return result


def settings_to_json(settings: dict[str, Any], sites: list[Any]) -> dict[str, Any]:
    """An estimator's settings in JSON's own types; a random state that is no number becomes None."""
    stored = {}
    for name, value in settings.items():
        if isinstance(value, nx.Graph):
            edges = nx.to_scipy_sparse_array(value, dtype=float, format="coo")  # parallel edges add up, as in a fit
            value = {
                "nodes": [node.item() if isinstance(node, np.generic) else node for node in value],
                "edges": [[int(q), int(m), float(w)] for q, m, w in zip(*edges.coords, edges.data, strict=True)],
            }
        elif name == "network" and not isinstance(value, str):
            value = in_order(value, sites)
            value = (value.toarray() if sparse.issparse(value) else np.asarray(value)).tolist()
        elif isinstance(value, (np.generic, np.ndarray)):
            value = value.tolist()
        elif name == "random_state" and not isinstance(value, Integral):
            value = None
        stored[name] = value
    return stored


def settings_from_json(stored: dict[str, Any]) -> dict[str, Any]:
    """The settings that `settings_to_json` stored."""
    settings = dict(stored)
    network = settings.get("network")
    if isinstance(network, dict):
        graph = nx.DiGraph()
        nodes = network["nodes"]
        graph.add_nodes_from(nodes)
        graph.add_weighted_edges_from((nodes[q], nodes[m], w) for q, m, w in network["edges"])
        settings["network"] = graph
    elif isinstance(network, list):
        settings["network"] = np.array(network)
    return settings
