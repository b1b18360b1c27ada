"""What a site's rows have spent of their privacy: all private runs in which the site took part.

A run is entered before the site sends any sum, with all that it may spend. When it has ended, what it did spend
takes its place. A run that is resumed after a crash is the same; one that begins again from nothing is another.
"""

from __future__ import annotations

import datetime as dt
import fcntl
import hashlib
import json
import math
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from gaussip.errors import FileError, PrivacyError
from gaussip.federation.folders import SiteFolder
from gaussip.files import write_json
from gaussip.privacy import Guarantee, Privacy
from gaussip.privacy.accounting import epsilon_of, mu_of, together

FILE = "privacy-ledger.json"


class Entry(NamedTuple):
    """One run."""

    federation: str
    run: str
    attempt: str  #: which of those with the same description
    began: str
    epsilon: float | None  #: None where the noise had a seed
    delta: float
    mu: float  #: spent, as epsilon is; before the end, what may be
    sums: int | None  #: None before the end


class Ledger:
    """The file of a site's rows."""

    def __init__(self, folder: SiteFolder) -> None:
        given = folder.settings.ledger
        self.path = folder.path / (FILE if given is None else Path(given))
        self.limit = folder.settings.privacy_limit

    def entries(self) -> list[Entry]:
        """All runs, in the order in which they began."""
        try:
            kept = json.loads(self.path.read_text()) if self.path.exists() else {"runs": []}
            return [Entry(**entry) for entry in kept["runs"]]
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise FileError(
                f"{self.path} cannot be read: {error}. It says what the rows have spent: mend it by hand, or restore "
                "its newest copy and add the runs since"
            ) from error

    def mu(self, *more: float) -> float:
        """What all runs have spent, with more."""
        return together([*(entry.mu for entry in self.entries()), *more])

    def refuse(self, privacy: Privacy | None, run: str, attempt: str) -> None:
        """Refuse a run, before anything is sent, that goes beyond the site's own limit, or cannot be entered."""
        if privacy is not None:
            with self._locked():
                self.entries()
        self._refuse(privacy, run, attempt)

    def left(self) -> float | None:
        """The largest epsilon that one more run may have; None where there is no limit."""
        if self.limit is None:
            return None
        rest = mu_of(self.limit.epsilon, self.limit.delta) ** 2 - self.mu() ** 2
        return epsilon_of(math.sqrt(max(rest, 0.0)), self.limit.delta)

    def _refuse(self, privacy: Privacy | None, run: str, attempt: str) -> None:
        others = self.entries()
        if self.limit is None or any((entry.run, entry.attempt) == (run, attempt) for entry in others):
            return  # one that is entered may go on
        if privacy is None or privacy.noise_seed is not None:
            what = "is not private" if privacy is None else "has a noise_seed, so that it guarantees nothing"
            raise PrivacyError(
                f"site.toml has a privacy_limit, and this run {what}",
                remedy="take part in private runs alone, or take privacy_limit out of site.toml",
            )
        epsilon = epsilon_of(self.mu(privacy.mu), self.limit.delta)
        if epsilon > self.limit.epsilon * (1 + 1e-6):
            spent = epsilon_of(self.mu(), self.limit.delta)
            raise PrivacyError(
                f"this run may spend epsilon={privacy.epsilon:g}, earlier ones have spent {spent:.3g}, and together "
                f"that is {epsilon:.3g} at delta={self.limit.delta:g}: more than the privacy_limit of site.toml, "
                f"{self.limit.epsilon:g}",
                remedy="agree on a smaller epsilon with the other sites, or raise the limit if those who are "
                "responsible for the rows allow it",
            )

    def charge(self, folder: SiteFolder, privacy: Privacy, attempt: str) -> None:
        """Enter a run before the site sends a sum."""
        run = folder.run.name
        with self._locked():
            entries = self.entries()
            if any((entry.run, entry.attempt) == (run, attempt) for entry in entries):
                return
            self._refuse(privacy, run, attempt)  # another run may have been entered since it was looked at
            now = dt.datetime.now(dt.UTC).isoformat(timespec="seconds")
            epsilon, mu = (privacy.epsilon, privacy.mu) if privacy.noise_seed is None else (None, 0.0)
            entry = Entry(folder.description.name, run, attempt, now, epsilon, privacy.delta, mu, None)
            self._write([*entries, entry])

    def settle(self, run: str, attempt: str, guarantee: Guarantee) -> None:
        """Enter what a run has spent that has ended."""
        mu, epsilon = (guarantee.mu, guarantee.epsilon) if guarantee.private else (0.0, None)
        with self._locked():
            entries = self.entries()
            for place, entry in enumerate(entries):
                if (entry.run, entry.attempt) == (run, attempt):
                    entries[place] = entry._replace(mu=mu, epsilon=epsilon, sums=len(guarantee.releases))
            self._write(entries)

    @contextmanager
    def _locked(self) -> Iterator[None]:
        """While no other process changes the file: folders may share it."""
        try:
            file = self.path.with_suffix(".lock").open("a")
        except OSError as error:
            raise FileError(f"cannot keep {self.path}: {error.strerror}") from error
        with file:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield

    def _write(self, entries: list[Entry]) -> None:
        write_json(self.path, {"runs": [entry._asdict() for entry in entries]})


def attempt_of(secret: bytes) -> str:
    """Which attempt at a run has this secret."""
    return hashlib.sha256(b"attempt" + secret).hexdigest()[:12]
