import numpy as np
import pytest

from gaussip.algorithms import REGISTRY
from gaussip.algorithms.mnem import MNEM
from gaussip.errors import SettingError
from gaussip.studies.comparison import Trial, compare
from gaussip.studies.methods import Method, parse_method
from gaussip.studies.simulation_model import Setting


def test_methods_are_written_as_people_write_them():
    assert parse_method("semi-mnem", 0.02) == Method("mnem", 0.02, True)
    assert parse_method(" NGD=0.003 ", 0.02) == Method("ngd", 0.003, False)
    assert [parse_method(t, 0.1).name for t in ("semi-em", "local", "dem")] == ["semi-EM", "Local", "DEM"]
    for wrong in ("mnem=fast", "semi-", "best", "mnem=2"):
        with pytest.raises(SettingError):
            parse_method(wrong, 0.01)


def test_a_collapse_is_a_result_and_the_others_go_on():
    methods = [parse_method(text, 0.05) for text in ("em", "nnem", "mnem")]
    em, nnem, mnem = compare(Trial(Setting(n_rows=3000, n_sites=6, delta=4), replicates=2), methods, max_rounds=400)
    assert nnem.collapsed == 2
    assert "collapsed at site" in nnem.collapse
    assert np.isnan(nnem.log_mse)
    assert em.collapsed == mnem.collapsed == 0
    assert np.isfinite([em.log_mse, mnem.log_mse, mnem.standard_error]).all()


def test_rounds_of_exchange_alone_are_looked_at_too(monkeypatch):
    """An algorithm that exchanges twice for each pass stands still in every other round."""

    class Twice(MNEM):
        name = "twice"

        def init(self, start, site):
            return (super().init(start, site), 0)

        def message(self, state):
            return super().message(state[0])

        def absorb(self, state, heard):
            if state[1] % 2 == 0:
                return (state[0], state[1] + 1), None
            inner, theta = super().absorb(state[0], heard)
            return (inner, state[1] + 1), theta

        def update(self, state, moments):
            return (super().update(state[0], moments), state[1])

        def estimate(self, state):
            return super().estimate(state[0])

    monkeypatch.setitem(REGISTRY, "twice", Twice)
    trial = Trial(Setting(n_rows=600, n_sites=3, spread="homogeneous"))
    twice = trial.run(Method("twice", 0.1, False), max_rounds=40, tol=0.0, marks=range(1, 41))
    once = trial.run(Method("mnem", 0.1, False), max_rounds=20, tol=0.0, marks=range(1, 21))
    np.testing.assert_array_equal(twice.mse[::2], once.mse)
    np.testing.assert_array_equal(twice.mse[1::2], once.mse[:-1])
    assert trial.run(Method("twice", 0.1, False), max_rounds=1, tol=0.0).mse.shape == (2, 1)


def test_a_replicate_s_numbers_do_not_depend_on_how_many_there_are():
    setting, methods = Setting(n_rows=600, n_sites=3, spread="homogeneous"), [parse_method("em", 0.1)]
    single, three = (compare(Trial(setting, replicates=r), methods, max_rounds=500, tol=1e-6)[0] for r in (1, 3))
    assert single.rounds < three.rounds < 500  # the others took longer to converge
    assert single.mse[0] == three.mse[0]


def test_semi_mnem_reaches_the_pooled_error_and_nnem_does_not():
    """Delta=2, heterogeneous, circle D=1, eta=.01, r=.1, 10 replicates, 3000 rounds."""
    replicates = 10
    methods = [parse_method(text, 0.01) for text in ("semi-em", "semi-mnem", "nnem", "semi-nnem")]
    em, mnem, *naive = compare(Trial(Setting(labelled=0.1), replicates=replicates), methods, max_rounds=3000)
    assert abs(mnem.log_mse - em.log_mse) < 0.15
    for score in naive:
        assert score.collapsed == replicates or score.log_mse > em.log_mse + 1
    assert abs(em.log_mse - -4.38) < 4 * np.hypot(em.standard_error, 0.03)  # the reference over 100 replicates
