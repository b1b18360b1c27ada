"""gaussip fit."""

import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

from gaussip.cli import options
from gaussip.cli.console import Answer, Json, component_names, progress, table
from gaussip.errors import CollapseError, GaussipError, SettingError, StartError
from gaussip.files import refuse_overwriting
from gaussip.settings import STARTS, check_choice, default


def run(
    tables: options.Tables,
    components: options.Components,
    out: Annotated[Path, typer.Option("--out", "-o", help="Where the model goes (.npz).")],
    sites: options.Sites = None,
    labels: options.Labels = None,
    weights: options.Weights = None,
    feature_columns: options.Features = None,
    others: options.NoFeatures = "",
    na_values: options.NaValues = "",
    components_per_class: Annotated[
        str,
        options.option("components_per_class", metavar="N", help="A number, or by class: ill=4,well=2 (others: 1)."),
    ] = str(default("components_per_class")),
    covariance_type: Annotated[str, options.option("covariance_type")] = default("covariance_type"),
    algorithm: Annotated[str, options.option("algorithm")] = default("algorithm"),
    network: options.Network = default("network"),
    mixing: options.Mixing = default("mixing"),
    eta: Annotated[float, options.option("eta")] = default("eta"),
    rounds: Annotated[int, options.option("max_rounds")] = default("max_rounds"),
    tol: Annotated[float, options.option("tol")] = default("tol"),
    reg_covar: options.RegCovar = default("reg_covar"),
    shrinkage: options.Shrinkage = default("shrinkage"),
    degenerate: Annotated[str, options.option("degenerate")] = default("degenerate"),
    unlabelled_weight: options.UnlabelledWeight = default("unlabelled_weight"),
    accelerate: Annotated[bool, options.option("accelerate")] = default("accelerate"),
    min_count: Annotated[int, options.option("min_count")] = default("min_count"),
    weighting: options.Weighting = default("weighting"),
    epsilon: options.Epsilon = default("epsilon"),
    delta: options.Delta = None,
    bounds: options.Bounds = "",
    colluding: options.Colluding = None,
    patient: options.Patient = None,
    start: Annotated[
        str, options.option("init_params", help="kmeans, labels, search, or a model file to resume from.")
    ] = default("init_params"),
    n_init: options.Starts = default("n_init"),
    device: options.Device = default("device"),
    exchange: Annotated[
        str, typer.Option(help="memory: all sites in this process; mpi: one site for each process of an MPI job.")
    ] = "memory",
    seed: options.Seed = default("random_state"),
    force: options.Overwrite = False,
    json: Json = False,
) -> Answer:
    """Fit a mixture across the sites of a table.

    Example: `gaussip fit patients.csv --sites hospital --labels diagnosis --components 3 --out model.npz`
    """
    from gaussip.estimator import NetworkGaussianMixture
    from gaussip.rows.sites import by_column
    from gaussip.rows.tables import read_network

    check_choice("exchange", exchange, ("memory", "mpi"))
    refuse_overwriting(out, force=force, inputs=[*tables, *([Path(network)] if network.endswith(".csv") else [])])
    named = options.Named(sites, labels, weights, feature_columns, others, na_values, patient)
    columns, n_labelled = options.read_columns(tables, named, alone=algorithm == "em")
    of_row = columns.sites
    goes_on = start not in STARTS
    if goes_on and epsilon is not None:
        raise StartError("a private fit begins from labels or by k-means, not from a model: leave --start out")
    if goes_on and not Path(start).is_file():
        raise SettingError(f"--start is {', '.join(STARTS)} or a model file, and there is no file {start!r}")
    mixture = NetworkGaussianMixture.load(start) if goes_on else NetworkGaussianMixture()
    known = [str(name) for name in getattr(mixture, "feature_names_in_", columns.X.column_names)]
    if goes_on and known != columns.X.column_names:
        raise StartError(
            f"the model of --start has the features {', '.join(known)}, not {', '.join(columns.X.column_names)}; "
            "name the same, in that order, with --features"
        )
    joining: Any = network
    if network.endswith(".csv"):
        if of_row is None:
            raise SettingError("a network file needs sites")
        joining = read_network(network, by_column(of_row)[1].tolist())
    mixture.set_params(
        n_components=components, components_per_class=options.per_class(components_per_class, columns.labels),
        covariance_type=covariance_type, algorithm=algorithm, network=joining, mixing=mixing, eta=eta,
        max_rounds=rounds, tol=tol, reg_covar=reg_covar, shrinkage=shrinkage, degenerate=degenerate,
        unlabelled_weight=unlabelled_weight,
        accelerate=accelerate, min_count=min_count, weighting=weighting, n_init=n_init, device=device,
        random_state=seed,
        privacy=options.privacy(epsilon, delta, bounds, colluding, patient),
        warm_start=goes_on, init_params=mixture.init_params if goes_on else start,
    )  # fmt: skip
    with progress(rounds if epsilon is None else 100, percent=epsilon is not None) as advance:
        if exchange == "mpi":
            _fit_by_ranks(mixture, columns, of_row, lambda round: advance("fitting", round))
        else:
            mixture._watch = lambda now: advance("fitting", now.round)
            mixture._watch_sums = lambda done, total: advance("fitting", 100 * done // total)
            mixture.fit(columns.X, columns.labels, sites=of_row, sample_weight=columns.weights)
    mixture.save(out)
    features = [name for name in columns.X.column_names if name != patient]
    last = {name: values[-1].item() for name, values in mixture.history_.items()}
    if mixture.privacy_ is not None:
        return _private(mixture, out, features, last)
    summary = (
        f"{columns.X.num_rows} rows at {len(mixture.sites_)} sites, {len(features)} features, {n_labelled} labelled: "
        f"{'converged' if mixture.converged_ else 'not converged'} after {mixture.n_rounds_} rounds, "
        f"log-likelihood {last['log_likelihood']:.6g} per row, disagreement {last['disagreement']:.2g}, "
        f"{last['bytes'] / 1e6:.3g} MB exchanged"
    )
    return Answer(
        [summary, "", _components(mixture, features), "", f"model written to {out}"],
        model=str(out), rows=columns.X.num_rows, labelled=n_labelled, sites=mixture.sites_,
        classes=mixture.classes_, features=features,
        rounds=mixture.n_rounds_, converged=mixture.converged_, **{k: v for k, v in last.items() if k != "round"},
        mixture_weights=mixture.weights_, means=mixture.means_, covariances=mixture.covariances_,
    )  # fmt: skip


def _private(mixture: Any, out: Path, features: list[str], last: dict[str, Any]) -> Answer:
    """What is shown of a private fit: nothing that is not in its noisy sums."""
    about, counted = round(mixture.site_mass_.sum()), mixture.privacy_.counted
    summary = (
        f"about {about} {counted} at {len(mixture.sites_)} sites, {len(features)} features: "
        f"{mixture.n_rounds_} rounds, {last['bytes'] / 1e6:.3g} MB exchanged"
    )
    return Answer(
        [summary, str(mixture.privacy_), "", _components(mixture, features), "", f"model written to {out}"],
        model=str(out), rows=about, sites=mixture.sites_, classes=mixture.classes_, features=features,
        rounds=mixture.n_rounds_, privacy=mixture.privacy_.as_json(), mixture_weights=mixture.weights_,
        means=mixture.means_, covariances=mixture.covariances_,
    )  # fmt: skip


def _fit_by_ranks(mixture: Any, columns: Any, of_row: Any, watch: Callable[[int], None]) -> None:
    """Fit as one rank of an MPI job; only the first goes on to print the result."""
    from gaussip.estimator.mpi_fit import fit, world

    communicator = world()
    first = communicator.Get_rank() == 0
    try:
        seen = watch if first else lambda _: None
        fit(mixture, columns.X, columns.labels, of_row, columns.weights, communicator, seen)
    except GaussipError as error:  # the same at all ranks
        knows_more = isinstance(error, CollapseError) and None not in (error.component, error.site)
        if not first and not knows_more:
            raise typer.Exit(error.exit_code) from None
        raise
    except Exception:
        traceback.print_exc()
        communicator.Abort(1)  # or the other ranks would wait for this one
    if not first:
        raise typer.Exit


def _components(mixture: Any, features: list[str], most: int = 8) -> Any:
    shown = features[:most]
    rows = []
    for k, name in enumerate(component_names(mixture)):
        means = [f"{m:.4g}" for m in mixture.means_[k][:most]]
        rows.append([name, f"{mixture.weights_[k]:.3f}", *means, *["..."] * (len(features) > most)])
    return table(["", "weight", *shown, *["..."] * (len(features) > most)], rows)
