"""The documentation is run as a reader would run it."""

import doctest
import importlib
import os
import re
import shlex
import subprocess
import sys
import tomllib
from pathlib import Path

import msgspec
import numpy as np
import pytest
import typer
from pyarrow.csv import read_csv

from command import gaussip
from gaussip import __version__
from gaussip.cli import app
from gaussip.federation.description import Description
from gaussip.federation.reading import of_text as federation_of
from gaussip.mixture.covariance_types import TYPES
from gaussip.studies.claims import CLAIMS
from gaussip.studies.design import ORDER, of_text
from gaussip.studies.report import report
from gaussip.studies.run import run

ROOT = Path(__file__).parents[1]
PRINTING = ["how-to-choose-k.md", "how-to-scikit-learn.md", "how-to-start.md", "how-to-uncertainty.md"]
PAGES = [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").glob("*.md"))]


def blocks(page, kind):
    return re.findall(rf"^```{kind}\n(.*?)^```$", page.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)


def test_the_readme_s_ten_lines(capsys):
    example, frames = blocks(ROOT / "README.md", "python")
    assert len([line for line in example.splitlines() if line.strip()]) <= 10
    scope = {}
    exec(example, scope)
    printed = capsys.readouterr().out
    assert "[[-3" in printed
    assert "[1]" in printed
    exec(frames, scope)
    assert "masked, 800 rows at 4 sites: converged" in capsys.readouterr().out
    assert scope["mixture"].feature_names_in_.tolist() == ["age", "dose"]


def test_the_measures(capsys):
    (example,) = blocks(ROOT / "docs" / "explanation-algorithms.md", "python")
    exec(example, {})
    assert "Contraction(norm=" in capsys.readouterr().out


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_rows_on_disk(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    scope = {}
    for example in blocks(ROOT / "docs" / "how-to-speed.md", "python"):
        exec(example, scope)
        means = sorted(scope["mixture"].means_[:, 0])
        assert np.allclose(means, [-3, 3], atol=0.2)


def test_covariance_types(capsys):
    page = ROOT / "docs" / "how-to-covariance-types.md"
    (example,) = blocks(page, "python")
    exec(example, {})
    assert f"```\n{capsys.readouterr().out}```" in page.read_text(encoding="utf-8")
    rows = {line.split("`")[1] for line in page.read_text(encoding="utf-8").splitlines() if line.startswith("| `")}
    assert rows == set(TYPES)


def test_a_private_fit(capsys):
    """What it prints but for the last digits, which are noise."""
    page = ROOT / "docs" / "how-to-privacy.md"
    (example,) = blocks(page, "python")
    exec(example, {})
    lines = capsys.readouterr().out.splitlines()
    assert "\n".join(lines[:3]) in page.read_text(encoding="utf-8")
    assert len(lines) == 5


def test_a_table_with_missing_cells(tmp_path, monkeypatch):
    """Every command of the page prints what stands below it."""
    path = ROOT / "docs" / "how-to-tables.md"
    page = path.read_text(encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    scope = {}
    exec(blocks(path, "python")[0], scope)
    rows = (tmp_path / "patients.csv").read_text(encoding="utf-8").splitlines()
    first = "\n".join(rows[:4])
    assert f"```\n{first}\n```" in page
    shown = [re.sub(r"\\\n\s+", "", text) for text in re.findall(r"```\n\$ gaussip (.*?)```", page, re.DOTALL)]
    assert len(shown) == 4
    for text in shown:
        command, _, printed = text.partition("\n")
        done = gaussip(*shlex.split(command))
        assert done.returncode == 0, done.stderr
        lines = [line.rstrip() for line in done.stdout.splitlines()]
        assert [line for line in filter(None, printed.splitlines()) if line.rstrip() not in lines] == []
    right = (read_csv("predicted.csv")["prediction"].to_numpy() == np.where(scope["ill"], "ill", "well")).mean()
    assert f"with two components for the ill, {right:.1%}" in page


def test_multiple_imputation(capsys):
    page = ROOT / "docs" / "how-to-tables.md"
    _, example = blocks(page, "python")
    exec(example, {})
    assert f"prints `{capsys.readouterr().out.strip()}`" in page.read_text(encoding="utf-8")


def test_a_federation():
    (toml,) = blocks(ROOT / "docs" / "how-to-sites.md", "toml")
    assert federation_of(toml).task().sites == ("basel", "bern", "chur")
    fields = {field.name for field in msgspec.structs.fields(Description)} - {"without", "going_on_from"}
    page = (ROOT / "docs" / "how-to-sites.md").read_text(encoding="utf-8")
    told = set(re.findall(r"^(\w+) = ", toml, re.MULTILINE)) | set(re.findall(r"`(\w+)[`\s]", page)) | {"sites"}
    assert fields <= told


def test_one_s_own_study(tmp_path):
    (toml,) = blocks(ROOT / "docs" / "how-to-studies.md", "toml")
    design = of_text(toml, "mine", replicates=2, most_rounds=20)
    made = report(run(design, tmp_path / "mine"))
    assert made.missing == 0
    assert "neighbours.svg" in {path.name for path in made.files}


def test_a_study_from_python(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (example,) = blocks(ROOT / "docs" / "how-to-studies.md", "python")
    exec(example, {})
    assert len(list((tmp_path / "studies" / "figure3" / "cells").iterdir())) == 10


def test_every_claim_is_told():
    page = (ROOT / "docs" / "how-to-studies.md").read_text(encoding="utf-8")
    for name, claim in CLAIMS.items():
        assert f"| `{name}` | {claim.text} |" in page


def test_make_study_runs_every_study_of_the_paper():
    (listed,) = re.findall(r"^STUDIES := (.*)$", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)
    assert listed.split() == [name for name in ORDER if name != "exact"]


def test_the_tutorial(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    page = ROOT / "docs" / "tutorial-first-fit.md"
    make_table, load, predict = blocks(page, "python")
    exec(make_table, {})
    (command,) = re.findall(r"^\$ gaussip (.*)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    done = subprocess.run(
        [sys.executable, "-c", "from gaussip.cli import main; main()", *shlex.split(command)],
        capture_output=True, text=True, env={**os.environ, "COLUMNS": "200"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert ": converged after" in done.stdout
    assert "warning" not in done.stderr
    scope = {}
    exec(load, scope)
    exec(predict, scope)
    mixture = scope["mixture"]
    assert mixture.classes_.tolist() == ["healthy", "ill"]
    np.testing.assert_allclose(scope["again"].means_, mixture.means_, rtol=1e-12)
    assert abs(mixture.site_weights_ - 0.5).max() < 0.05
    capsys.readouterr()


def test_preprocessing():
    scope = {}
    first, pipeline = blocks(ROOT / "docs" / "how-to-preprocess.md", "python")
    exec(first, scope)
    assert scope["reduced"].shape[1] == scope["pca"].n_components_ < 20
    exec(pipeline, scope)
    assert scope["steps"].predict(scope["X"]).shape == (600,)


@pytest.mark.parametrize("page", PRINTING)
def test_pages_that_show_what_they_print(page, capsys):
    (example,) = blocks(ROOT / "docs" / page, "python")
    exec(example, {})
    assert f"```\n{capsys.readouterr().out}```" in (ROOT / "docs" / page).read_text(encoding="utf-8")


def test_the_tutorial_of_chest_x_rays(tmp_path, monkeypatch, capsys):
    """Every command of the page but the last ones, which need the images or a GPU: it prints what the page says."""
    monkeypatch.chdir(tmp_path)
    page = ROOT / "docs" / "tutorial-xray.md"
    text = page.read_text(encoding="utf-8")
    (design,) = blocks(page, "toml")
    (tmp_path / "chest.toml").write_text(design)
    commands = re.findall(r"^\$ gaussip (.*)$", text, re.MULTILINE)
    told = [gaussip(*shlex.split(command)) for command in commands]
    assert [one.returncode for one in told] == [0, 0, 0, 0]
    for one in told[:3]:
        assert all(line.strip() in text for line in one.stdout.splitlines())
    measured = {
        line.split()[0]: line.split()[-4:] for line in told[3].stdout.split("labels, unl")[0].splitlines()[9:]
    }
    for name in ("exact", "EM", "Local"):
        (row,) = re.findall(rf"^\| {name}\b.*$", text, re.MULTILINE)
        shown = [float(cell) for cell in row.split("|")[2:-1]]
        np.testing.assert_allclose([float(value) for value in measured[name]], shown, atol=0.02)
    (example,) = blocks(page, "python")
    exec(example, {})
    assert len(capsys.readouterr().out.split()) == 3


def commands_of(command=None, path=()):
    """Every command of the app by the words after gaussip, groups too."""
    command = command or typer.main.get_command(app)
    commands = {path: command}
    for name, below in getattr(command, "commands", {}).items():
        commands |= commands_of(below, (*path, name))
    return commands


COMMANDS = commands_of()
OPTIONS = {path: {"--help", *(name for param in command.params for name in (*param.opts, *param.secondary_opts))}
           for path, command in COMMANDS.items()}  # fmt: skip


def calls(text):
    """The calls of gaussip in code: the command's words, and what follows them."""
    code = re.findall(r"`+[^`]+`+", text.replace("\\\n", " "))
    for words in re.findall(r"(?<!from )(?<!import )(?<![\w.-])gaussip +([^`\n#|]+)", "\n".join(code)):
        rest, path = words.split(), ()
        while rest and (*path, rest[0]) in COMMANDS:
            path = (*path, rest.pop(0))
        yield path, rest


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere_and_options_exist(page):
    text = page.read_text(encoding="utf-8")
    for target in re.findall(r"\]\(([^)#]+)\)|src=\"([^\"]+)\"", text):
        path = next(filter(None, target))
        assert "://" in path or (page.parent / path).exists(), path
    for path, rest in calls(text):
        assert path or rest[0].isupper() or rest[0] in OPTIONS[()], f"gaussip {rest[0]}"
        for option in (word.rstrip(".,") for word in rest if re.match(r"\[?--?[a-z]", word)):
            assert option.strip("[]") in OPTIONS[path], f"gaussip {' '.join(path)}: {option}"
    known = set().union(*OPTIONS.values())
    for option in re.findall(r"`(--[a-z-]+)", text):
        assert option in known, option


def test_the_reference_lists_every_command():
    page = (ROOT / "docs" / "ref-command-line.md").read_text(encoding="utf-8")
    rows = [
        re.findall(r"`([^`]+)`", line.split(" | ")[0]) for line in page.splitlines() if line.startswith("| `gaussip")
    ]
    listed = set()
    for first, *others in rows:
        words = first.split()[1:]
        path = next(tuple(words[:n]) for n in (2, 1) if tuple(words[:n]) in COMMANDS)
        listed |= {path, *((*path[:-1], other.split()[0]) for other in others)}
    assert listed == {path for path, command in COMMANDS.items() if path and not hasattr(command, "commands")}


def test_releases_and_hosted_checks_agree_with_the_project():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    hosted = (ROOT / ".github" / "workflows" / "ci.yml").read_text(encoding="utf-8")
    (matrix,) = re.findall(r"python: \[(.*)\]", hosted)
    supported = [name.rpartition(" ")[2] for name in project["classifiers"] if re.search(r":: 3\.\d+$", name)]
    assert re.findall(r'"([\d.]+)"', matrix) == supported
    always = (ROOT / ".ci" / "run").read_text(encoding="utf-8")
    assert re.findall(r"- run: (make .*)", hosted) == re.findall(r"^make .*$", always, re.MULTILINE)
    citation = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    assert f"\nversion: {__version__}\n" in citation
    assert f"\n## {__version__} (" in (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")


def test_doctests():
    """Every example in a docstring of the package runs; none has to be listed."""
    attempted = 0
    for file in sorted((ROOT / "src").rglob("*.py")):
        if ">>>" not in file.read_text(encoding="utf-8"):
            continue
        name = ".".join(file.relative_to(ROOT / "src").with_suffix("").parts).removesuffix(".__init__")
        found = doctest.testmod(importlib.import_module(name))
        assert found.failed == 0, name
        attempted += found.attempted
    assert attempted > 15
