"""Noise in whole numbers: drawn with the probabilities that it should have, from uniform whole numbers alone."""

from __future__ import annotations

import math
import os
import random
from types import SimpleNamespace

import numpy as np
import pytest
from scipy import stats

from gaussip.errors import DataError
from gaussip.exchange.questions import Ask, answered
from gaussip.privacy import discrete_gaussian as module
from gaussip.privacy.discrete_gaussian import BUFFER, SystemRandomness, discrete_gaussian
from gaussip.privacy.noised import BITS, STEP, Block, Noised, Releases

RARE = 5.0  # expected draws: what is rarer goes together


def seeded(seed):
    return random.Random(seed).randrange


def chance_of(drawn, probability):
    """The p-value of whole numbers whose probabilities are a dictionary's; the rare ones go together."""
    frequent = [z for z, p in probability.items() if p * len(drawn) >= RARE]
    counts = [np.sum(np.asarray(drawn) == z) for z in frequent]
    expected = [probability[z] * len(drawn) for z in frequent]
    counts.append(len(drawn) - sum(counts))
    expected.append(len(drawn) - sum(expected))
    return stats.chisquare(counts, expected).pvalue


@pytest.mark.parametrize("sigma", [1, 2, 3, 7, 20])
def test_small_ones_have_the_exact_probabilities(sigma):
    """All of them, by their definition."""
    heights = {z: math.exp(-z * z / (2 * sigma * sigma)) for z in range(-12 * sigma, 12 * sigma + 1)}
    whole = math.fsum(heights.values())
    below = seeded(sigma)
    drawn = [discrete_gaussian(sigma, below) for _ in range(40_000)]
    assert chance_of(drawn, {z: height / whole for z, height in heights.items()}) > 1e-3
    assert set(map(type, drawn)) == {int}


@pytest.mark.parametrize("t", [1, 2, 9])
def test_so_has_the_discrete_laplace_they_are_made_of(t):
    heights = {z: math.exp(-abs(z) / t) for z in range(-60 * t, 60 * t + 1)}
    whole = math.fsum(heights.values())
    below = seeded(t)
    drawn = [module._discrete_laplace(t, below) for _ in range(20_000)]
    assert chance_of(drawn, {z: height / whole for z, height in heights.items()}) > 1e-3


@pytest.mark.parametrize(("numerator", "denominator"), [(0, 1), (1, 7), (1, 1), (3, 2), (5, 1), (7 * 2**80, 2**81)])
def test_so_has_an_event_of_probability_exp(numerator, denominator):
    below = seeded(numerator % 1000)
    happened = sum(module._exp_of(numerator, denominator, below) for _ in range(20_000))
    assert stats.binomtest(happened, 20_000, math.exp(-numerator / denominator)).pvalue > 1e-3


def test_large_ones_are_normal():
    """In their distribution, from one to the next, and in their lowest bits."""
    below, sigma = seeded(32), 2**32
    whole = np.array([discrete_gaussian(sigma, below) for _ in range(20_000)])
    drawn = whole / sigma
    assert stats.kstest(drawn, "norm").pvalue > 1e-3
    assert drawn.var() == pytest.approx(1, abs=4 * math.sqrt(2 / 20_000))
    assert stats.kurtosis(drawn) == pytest.approx(0, abs=4 * math.sqrt(24 / 20_000))
    assert abs(np.corrcoef(drawn[1:], drawn[:-1])[0, 1]) < 0.03
    assert stats.chisquare(np.bincount(whole & 255, minlength=256)).pvalue > 1e-3
    assert len(np.unique(whole)) == 20_000


def test_only_whole_numbers_are_asked_for():
    """No float takes part, and of limits there is none that has nothing below it."""
    asked, below = [], seeded(0)

    def watched(limit):
        asked.append(limit)
        return below(limit)

    for sigma in (1, 5, 2**32, 2**40 + 1):
        for _ in range(50):
            discrete_gaussian(sigma, watched)
    assert set(map(type, asked)) == {int}
    assert min(asked) >= 1


@pytest.mark.parametrize("limit", [1, 2, 3, 10, 255, 256, 257])
def test_the_system_s_numbers_are_uniform(limit):
    """Chance, but no more than once in a million times is it refused."""
    randomness = SystemRandomness()
    drawn = np.array([randomness(limit) for _ in range(20_000)])
    assert drawn.min() >= 0
    assert drawn.max() < limit
    if limit > 1:
        assert stats.chisquare(np.bincount(drawn, minlength=limit)).pvalue > 1e-6


@pytest.mark.parametrize("limit", [2**32 + 1, 2**64, 3 * 2**100, 2 ** (8 * BUFFER) + 1, 2 ** (9 * BUFFER)])
def test_so_are_large_ones(limit):
    """Also such as need more bytes than are read at a time."""
    randomness = SystemRandomness()
    drawn = [randomness(limit) for _ in range(4000)]
    assert all(0 <= number < limit for number in drawn)
    assert stats.kstest([number / limit for number in drawn], "uniform").pvalue > 1e-6
    assert len(set(drawn)) > 3990


def test_every_bit_of_the_system_is_used_once(monkeypatch):
    """Where no number is refused, those drawn are the bytes that were read, in their order."""
    read = []

    def watched(size):
        read.append(random.Random(len(read)).randbytes(size))
        return read[-1]

    monkeypatch.setattr(os, "urandom", watched)
    randomness = SystemRandomness()
    drawn = [randomness(256) for _ in range(3 * BUFFER)]
    assert bytes(drawn) == b"".join(read)
    assert [len(part) for part in read] == [BUFFER] * 3


def everywhere(below):
    """The same randomness for all sites, one after the other."""
    return lambda place: below


def placed(values):
    """Parts with the places of their sites, as a code takes them."""
    return np.column_stack([values, np.arange(len(values))])


@pytest.mark.parametrize("shares", [1, 2, 4, 9])
def test_the_noise_of_the_sites_that_count_has_variance_one(shares):
    """That of all who do not collude; each adds its share, and a site's own is not enough."""
    code = Noised(shares, everywhere(seeded(shares)))
    words = code.encode(placed(np.zeros((shares, 8000))), shares + 2)
    drawn = code.decode(words.sum(axis=0))
    assert stats.kstest(drawn, "norm").pvalue > 1e-3
    assert drawn.var() == pytest.approx(1, abs=4 * math.sqrt(2 / 8000))
    assert words[0].std() * STEP == pytest.approx(shares**-0.5, rel=0.04)
    assert abs(np.atleast_2d(np.corrcoef(words))[np.triu_indices(shares, 1)]).max(initial=0) < 0.05


def test_shares_are_never_too_small():
    """Rounded up: of any number of sites the variances add up to one at least."""
    for shares in range(1, 200):
        found = []

        def never(limit, found=found):
            found.append(limit)
            raise LookupError

        with pytest.raises(LookupError):
            Noised(shares, everywhere(never)).encode(placed(np.zeros((1, 1))), 3)
        assert shares * (found[0] - 1) ** 2 >= 4**BITS  # the first limit is sigma + 1


def test_zeros_at_all_sites_become_noise_and_numbers_stay():
    code = Noised(3, everywhere(seeded(5)))
    nothing = code.decode(code.encode(placed(np.zeros((5, 3000))), 5).sum(axis=0))
    assert stats.kstest(nothing * math.sqrt(3 / 5), "norm").pvalue > 1e-3
    assert (nothing != 0).all()
    values = np.random.default_rng(0).normal(size=(5, 40)) * 1e4
    again = Noised(3, everywhere(seeded(5)))
    noise = again.decode(again.encode(placed(np.zeros((5, 40))), 5).sum(axis=0))
    found = Noised(3, everywhere(seeded(5)))
    total = found.decode(found.encode(placed(values), 5).sum(axis=0))
    np.testing.assert_allclose(total - noise, values.sum(axis=0), rtol=0, atol=5 * STEP)
    assert code.words(8) == 7


def test_a_part_gets_other_noise_each_time():
    for below in (seeded(0), SystemRandomness()):
        code, values = Noised(2, everywhere(below)), np.ones((3, 50))
        first, second = code.encode(placed(values), 3), code.encode(placed(values), 3)
        assert (first != second).all()
        assert len(np.unique([first, second])) == 300


@pytest.mark.parametrize("wrong", [np.nan, np.inf, 2.0**31])
def test_what_could_overflow_is_refused(wrong):
    with pytest.raises(DataError, match="not a finite number below"):
        Noised(2, everywhere(seeded(0))).encode(placed(np.array([[0.0, wrong]] * 3)), 3)


def test_a_release_is_in_its_own_unit_and_is_kept_account_of():
    """Each block has the noise of its bound and its share, and what all add up to is known."""
    below = seeded(1)
    releases = Releases(5, 3, lambda number, place: below)
    blocks = [Block((1000,), 2.0, 0.36), Block((20, 50), 10.0, 0.64)]
    values = np.arange(2000.0).reshape(2, 1000)

    def part(held):
        return [np.stack([values[0]] * 3), np.stack([values[1].reshape(20, 50)] * 3)]

    first, second = answered(releases.ask("numbers", 0.5, blocks, part), SimpleNamespace(indices=np.arange(3)), 3)
    assert second.shape == (20, 50)
    for found, wanted, block in ((first, values[0], blocks[0]), (second.ravel(), values[1], blocks[1])):
        noise = block.bound / (0.5 * math.sqrt(block.share))
        assert block.deviation(0.5) == pytest.approx(noise)
        assert stats.kstest((found - 3 * wanted) / noise, "norm").pvalue > 1e-3
    assert isinstance(next(releases.ask("again", 1.2, blocks[:1], part)), Ask)
    assert [(name, size) for name, _, size in releases.made] == [("numbers", 2000), ("again", 1000)]
    mus = [mu for _, mu, _ in releases.made]
    np.testing.assert_allclose(mus, [0.5, 1.2 * 0.6], rtol=1e-7)
    assert mus[0] > 0.5  # a little is kept for rounding
