"""The description of a federation, its folders and certificates."""

from __future__ import annotations

import datetime as dt
import json
import stat

import numpy as np
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import serialization

from command import gaussip
from gaussip.errors import CertificateError, FederationError, FileError
from gaussip.federation import certificates, folders
from gaussip.federation.reading import load, of_text

TEXT = """\
name = "trial"
components = 2
features = ["age", "height"]
labels = "diagnosis"
classes = ["ill", "well"]

[sites.bern]
address = "127.0.0.1:7001"

[sites.basel]
address = "basel.example.org:7447"

[sites.chur]
"""


def changed(*pairs):
    text = TEXT
    for old, new in pairs:
        assert old in text
        text = text.replace(old, new)
    return text


def test_a_description_and_its_defaults():
    found = of_text(TEXT)
    assert found.names == ("basel", "bern", "chur")
    assert (found.algorithm, found.network, found.start, found.max_rounds) == ("masked", "ring", "kmeans", 1000)
    assert found.common_name("bern") == "bern.trial"
    assert found.host("basel") == "basel.example.org"
    assert found.host("chur") is None
    task = found.task()
    assert (task.sites, task.network.diameter, task.n_classes) == (("basel", "bern", "chur"), 1, 2)
    assert (task.hide, task.reveals) == (True, "nothing")


def test_sites_agree_on_everything_but_where_they_are():
    found = of_text(TEXT)
    moved = of_text(changed(("127.0.0.1:7001", "127.0.0.1:7009")))
    ordered = of_text(changed(('["ill", "well"]', '["well", "ill"]')))
    other = of_text(changed(("components = 2", "components = 3")))
    may = of_text(changed(("components = 2", 'components = 2\nreveals = "site moments"')))
    lacking = [
        ("components = 2", 'components = 2\nreveals = "site moments"'),
        ("[sites.chur]", '[sites.chur]\nlacks = ["age"]'),
    ]
    assert of_text(changed(*lacking)).digest() != may.digest()
    assert moved.digest() == ordered.digest() == found.digest() != other.digest()
    shrunk = of_text(changed(("components = 2", "components = 2\nshrinkage = 0.0")))
    assert shrunk.digest() == found.digest()  # as before the key was there
    assert of_text(changed(("components = 2", "components = 2\nshrinkage = 0.1"))).digest() != found.digest()


TWO = """\
name = "two"
features = ["x"]
components = 2
{}
[sites]
a = {{ address = "127.0.0.1:7001" }}
b = {{}}
"""


def test_two_sites_cannot_hide_from_each_other():
    """Of two, each can take its own part from the sum: they must say that they may."""
    for line in ('start = "search"', 'intervals = "plain"', "seed = 1", "hide = true"):
        with pytest.raises(
            FederationError, match=r"at least three: of two, each can subtract its part .*hide = false"
        ):
            of_text(TWO.format(line))
    with pytest.raises(FederationError, match=r'without masks every site .* write reveals = "site moments"'):
        of_text(TWO.format("hide = false"))
    assert not of_text(TWO.format('hide = false\nreveals = "site moments"')).task().hide


def test_gossip_is_refused_unless_the_sites_may_know_each_other_s_moments():
    """What neighbours compute from it is said; see tests/test_attack.py for the attack."""
    for name in ("exact", "mnem", "nnem", "dem", "ngd"):
        gossip = f'components = 2\nalgorithm = "{name}"'
        for more in ("", '\nreveals = "row counts"'):
            with pytest.raises(FederationError, match='the rows of small sites: write reveals = "site moments"'):
                of_text(changed(("components = 2", gossip + more)))
        assert of_text(changed(("components = 2", gossip + '\nreveals = "site moments"'))).task()
    assert (
        of_text(changed(("components = 2", 'components = 2\nreveals = "row counts"'))).task().reveals == "row counts"
    )


def test_pairs_given_starts_and_scaling():
    text = changed(
        ("components = 2", 'components = 2\nnetwork = [["bern", "chur"], ["basel", "bern"]]\nscale = true')
    )
    start = "\n[start]\nweights = [0.4, 0.6]\nmeans = [[0, 1], [2, 3]]\n"
    start += "covariances = [[[1, 0], [0, 1]], [[1, 0], [0, 1]]]\n"
    task = of_text(text + start).task()
    assert task.network.diameter == 2
    assert task.scale
    np.testing.assert_array_equal(task.start.means, [[0, 1], [2, 3]])


def test_a_feature_that_one_or_two_sites_lack_or_have_is_refused_unless_they_may_be_known():
    """What is left of a sum without a site's own part is then the other's; see tests/test_attack.py."""
    five = TEXT + "".join(f'[sites.{name}]\naddress = "127.0.0.1:7{m}"\n' for m, name in enumerate("uvwxyz"))
    lacks, known = '\nlacks = ["age"]', 'components = 2\nreveals = "site moments"'

    def lacking(*names, text=five):
        for name in names:
            text = text.replace(f"[sites.{name}]", f"[sites.{name}]{lacks}")
        return text

    for names, text in (("u", "only 'u' lacks 'age'"), ("uv", "only 'u', 'v' lack 'age'"),
                        ("uvwxyz", None), ("uvw", None)):  # fmt: skip
        if text is None:
            assert of_text(lacking(*names)).task()
            continue
        with pytest.raises(FederationError, match=text):
            of_text(lacking(*names))
        assert of_text(lacking(*names).replace("components = 2", known)).task()
    with pytest.raises(FederationError, match="only 'basel', 'bern' have 'age': what sums say of it is theirs"):
        of_text(lacking("chur", *"uvwxyz"))


@pytest.mark.parametrize(
    ("pairs", "line", "text"),
    [
        ([("components = 2", "components = 0")], 2, "components must be a whole number of at least 1, not 0"),
        ([("components = 2", 'components = "two"')], 2, "expected `int | object`, got `str`"),
        ([("components = 2", "component = 2")], 2, "unknown key 'component'; there are: name, sites, components"),
        ([('name = "trial"', 'name = "a trial"')], 1, "must be letters, digits, - and _"),
        ([('address = "127.0.0.1:7001"', 'address = "127.0.0.1"')], 8, "is not host:port"),
        ([('address = "127.0.0.1:7001"', "port = 7001")], 8, "unknown key 'port'; there are: address"),
        ([('"age", "height"', '"age", "age"')], 3, "each named once"),
        ([('labels = "diagnosis"\n', "")], 4, "go together"),
        ([('["ill", "well"]', '["ill", "well", "new"]')], 5, "at most one for each of the 2 components"),
        ([('["ill", "well"]', '["ill", 2]')], 5, "mixes words and numbers"),
        ([('["ill", "well"]', '["ill|well", "new"]')], 5, "a class cannot be named 'ill|well'"),
        ([('["ill", "well"]', '["ill", "-1"]')], 5, "a class cannot be named '-1'"),
        (
            [("components = 2", "components = 3\ncomponents_per_class = 2")],
            3,
            "they have 4 components together: use components = 4",
        ),
        (
            [
                ("components = 2", "components = 2\ncomponents_per_class = 2"),
                ('labels = "diagnosis"\nclasses = ["ill", "well"]\n', ""),
            ],
            3,
            "components_per_class needs labels and classes",
        ),
        ([("[sites.chur]", '[sites.chur]\nlacks = ["age", "height"]')], 14, "site chur lacks every feature"),
        ([("components = 2", "components = { at_most = 3, at_least = 4 }")], 2, "no number from at_least=4"),
        ([("components = 2", 'components = { at_most = 3, criterion = "best" }')], 2, "criterion must be one of bic"),
        ([("components = 2", "components = { most = 3 }")], 2, "unknown key 'most'; there are: at_most, at_least"),
        ([("components = 2", 'components = { at_most = 3 }\nstart = "labels"')], 3, "so is the start"),
        (
            [("components = 2", 'components = 2\nintervals = "yes"')],
            3,
            "intervals must be one of none, plain, robust",
        ),
        (
            [("components = 2", 'components = 2\nunlabelled_weight = 0.5\nintervals = "plain"')],
            4,
            'write intervals = "robust"',
        ),
        ([("components = 2", 'components = 900\nintervals = "plain"')], 3, "standard errors are for at most 3000"),
        (
            [("components = 2", 'components = 2\nstart = "random"')],
            3,
            "start must be one of kmeans, labels, search, or a table",
        ),
        (
            [("components = 2", 'components = 2\nnetwork = [["bern", "genf"]]')],
            3,
            "'genf' that is not among the sites",
        ),
        ([('address = "basel.example.org:7447"', "")], None, "neither basel nor chur has an address"),
        ([("components = 2", 'components = 2\nnetwork = [["bern", "chur"]]')], None, "hears nobody"),
        ([("components = 2", 'components = 2\nnetwork = "rong"')], None, "there is no network 'rong'"),
        (
            [("components = 2", 'components = 2\nalgorithm = "exact"\nnetwork = "circle"\nreveals = "site moments"')],
            None,
            "exact needs a two-way network",
        ),
        ([("components = 2", 'components = 2\nalgorithm = "mnem"')], 3, "can compute a site's own moments"),
        (
            [("components = 2", 'components = 2\nreveals = "all"')],
            3,
            "reveals must be one of nothing, row counts, site",
        ),
        ([("components = 2", 'components = 2\nweighting = "equal"')], 3, "it needs weighting = 'rows'"),
        ([("components = 2", 'components = 2\nalgorithm = "em"')], None, "does not run between sites"),
        ([("components = 2", "components = ")], None, "is not TOML"),
        (
            [("components = 2", "components = 2\nseed = 99999999999")],
            3,
            "seed must be a whole number from 0 to 4294967295, not 99999999999",
        ),
        ([("components = 2", "components = 2\nwithout = []")], 3, "without is not for a description"),
        ([('"age", "height"', '"age", "diagnosis"')], 4, "column 'diagnosis' cannot be a feature too"),
        ([("basel.example.org:7447", "127.0.0.1:7001")], 8, "two sites have the address 127.0.0.1:7001"),
        ([("basel.example.org:7447", "bas..el:7447")], 11, "is not host:port"),
        ([("basel.example.org:7447", "[::::]:7447")], 11, "is not host:port"),
        ([("components = 2", "components = 2\ntol = -1.0")], 3, "tol must be a number of at least 0"),
        ([("components = 2", 'components = 2\nweighting = "x"')], 3, "weighting must be one of rows, equal"),
    ],
)
def test_what_is_wrong_and_where(pairs, line, text):
    with pytest.raises(FederationError) as refused:
        of_text(changed(*pairs))
    assert text in str(refused.value)
    if line is not None:
        assert f"federation.toml, line {line}: " in str(refused.value)


def test_folders_hold_their_own_secrets_only(tmp_path):
    made = folders.init(TEXT, of_text(TEXT), tmp_path / "out", days=30, requests=False)
    assert [path.name for path in made] == ["basel", "bern", "chur"]
    keys = {path.name: (path / "key.pem").read_bytes() for path in made}
    keys["authority"] = (tmp_path / "out" / "authority" / "key.pem").read_bytes()
    assert len(set(keys.values())) == 4
    for path in made:
        assert stat.S_IMODE((path / "key.pem").stat().st_mode) == 0o600
        assert stat.S_IMODE(path.stat().st_mode) == 0o700
        content = b"".join(file.read_bytes() for file in path.iterdir())
        assert [name for name, key in keys.items() if key in content] == [path.name]
        found = folders.read(path)
        ends = certificates.check(
            found.key, found.certificate, found.authorities, f"{path.name}.trial", found.description.host(path.name)
        )
        assert dt.timedelta(days=29) < ends - dt.datetime.now(dt.UTC) < dt.timedelta(days=31)
        certificate = x509.load_pem_x509_certificate(found.certificate.read_bytes())
        assert not certificate.extensions.get_extension_for_class(x509.BasicConstraints).value.ca
    with pytest.raises(FileError, match="is not an empty folder"):
        folders.init(TEXT, of_text(TEXT), tmp_path / "out", days=30, requests=False)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out"]


def test_requests_for_another_authority(tmp_path):
    folders.init(TEXT, of_text(TEXT), tmp_path / "out", days=30, requests=True)
    home = tmp_path / "out" / "bern"
    request = x509.load_pem_x509_csr((home / "request.pem").read_bytes())
    assert request.is_signature_valid
    assert request.subject.rfc4514_string() == "CN=bern.trial"
    found = folders.read(home)
    with pytest.raises(CertificateError, match=r"there is no certificate .*have the site's request signed"):
        certificates.check(found.key, found.certificate, found.authorities, "bern.trial", "127.0.0.1")
    assert not (tmp_path / "out" / "authority").exists()


def test_certificates_that_others_would_refuse(tmp_path):
    authority, another = certificates.new_authority("trial"), certificates.new_authority("another")

    def checked(identity, trusted=authority, key=None, host=None):
        for name, data in (
            ("key", key or identity.key), ("certificate", identity.certificate), ("authorities", trusted.certificate)
        ):  # fmt: skip
            (tmp_path / name).write_bytes(data)
        return certificates.check(*(tmp_path / n for n in ("key", "certificate", "authorities")), "bern.trial", host)

    good = certificates.new_certificate(authority, "bern.trial", "bern.example.org", 1)
    assert checked(good)
    names = x509.load_pem_x509_certificate(good.certificate).extensions
    host = names.get_extension_for_class(x509.SubjectAlternativeName).value
    assert host.get_values_for_type(x509.DNSName) == ["bern.example.org"]
    with pytest.raises(CertificateError, match=r"is valid from .* renew it with gaussip federation renew"):
        checked(certificates.new_certificate(authority, "bern.trial", None, -1))
    with pytest.raises(CertificateError, match=r"is for chur\.trial, not for bern\.trial"):
        checked(certificates.new_certificate(authority, "chur.trial", None, 1))
    with pytest.raises(CertificateError, match="was not signed by an authority in"):
        checked(good, trusted=another)
    with pytest.raises(CertificateError, match=r"is for bern\.example\.org, but the site is reached at 10\.0\.0\.1"):
        checked(good, host="10.0.0.1")
    assert checked(good, host="bern.example.org")
    with pytest.raises(CertificateError, match="is not the key of"):
        checked(good, key=certificates.new_certificate(authority, "bern.trial", None, 1).key)
    with pytest.raises(CertificateError, match="cannot be read as PEM"):
        checked(good, key=b"nonsense")
    assert serialization.load_pem_private_key(good.key, None).curve.name == "secp256r1"


def test_commands(tmp_path):
    file = tmp_path / "federation.toml"
    file.write_text(TEXT)
    shown = gaussip("federation", "check", file)
    assert "trial: 3 sites, 2 features, 2 components, algorithm masked" in shown.stdout
    assert "(calls others)" in shown.stdout
    found = json.loads(gaussip("federation", "check", file, "--json").stdout)
    assert found["digest"] == load(file).digest()
    assert found["neighbours"]["bern"] == ["basel", "chur"]
    drawn = gaussip("federation", "draw", file, "--out", tmp_path / "network.png")
    assert drawn.returncode == 0
    assert (tmp_path / "network.png").stat().st_size > 1000
    made = gaussip("federation", "init", file, "--out", tmp_path / "out", "--days", "7")
    assert "certificates end in 7 days" in made.stdout
    renewed = gaussip("federation", "renew", tmp_path / "out", "genf")
    assert (renewed.returncode, "has no folder of a site 'genf'" in renewed.stderr) == (2, True)
    file.write_text(changed(("components = 2", "components = 0")))
    refused = gaussip("federation", "init", file, "--out", tmp_path / "more")
    assert (refused.returncode, "line 2: components must be a whole number of at least 1" in refused.stderr) == (
        2,
        True,
    )
    assert not (tmp_path / "more").exists()


def test_folders_that_are_none(tmp_path):
    with pytest.raises(FederationError, match=r"is not a site's folder: it has no federation\.toml"):
        folders.read(tmp_path)
    folders.init(TEXT, of_text(TEXT), tmp_path / "out", days=30, requests=False)
    settings = tmp_path / "out" / "bern" / "site.toml"
    for text, why in (
        ('site = "genf"', "site 'genf' of"), ("place = 1", "unknown"), ('site = "bern"\npatience = 0', "above 0"),
        ('site = "bern"\nlisten = "here"', "is not host:port"),
    ):  # fmt: skip
        settings.write_text(text)
        with pytest.raises(FederationError, match=why):
            folders.read(settings.parent)
