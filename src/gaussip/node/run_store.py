"""What a run keeps beside its journal: results of its phases, checkpoints, a digest of its rows, and its end."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

from gaussip.errors import DataError, FederationError, FileError
from gaussip.exchange.masks import SECRET
from gaussip.files import whole, write_json
from gaussip.files.archive import read, write
from gaussip.mixture.theta import Theta
from gaussip.phases.program import RESULTS
from gaussip.phases.task import LocalData

CHECKPOINTS = 20  # kept, the newest


class RunStore:
    """The folder of one run at one site."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def make(self) -> None:
        """Make the folder; to look at what is kept it need not be there."""
        try:
            (self.folder / "checkpoints").mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise FileError(f"cannot make {self.folder}: {error.strerror}") from error

    def refuse_other_rows(self, digest: str) -> None:
        """Refuse rows that are not those the run began with."""
        kept = self._read_json("rows.json")
        if kept is not None and kept.get("sha256") != digest:
            raise DataError(
                "the table's rows, labels or weights are not those this run began with: use the table as it was, or "
                "agree with the other sites to start over (gaussip site go-on DIR --from 0, at every site)"
            )

    def keep_rows(self, digest: str, mass: float) -> None:
        """From now on the rows are to stay the same."""
        write_json(self.folder / "rows.json", {"sha256": digest, "mass": mass})

    def mass(self) -> float:
        """The site's rows as they count in the fit."""
        return float((self._read_json("rows.json") or {})["mass"])

    def write_done(self, names: Iterable[str]) -> None:
        """Keep which neighbours are done."""
        write_json(self.folder / "done.json", {"sites": sorted(names)})

    def done(self) -> list[str]:
        """The neighbours who are done."""
        return list((self._read_json("done.json") or {}).get("sites", []))

    def write_result(self, name: str, result: Any) -> None:
        """Keep a result of the program."""
        write(self.folder / f"{name}.npz", result._asdict(), {"what": name})

    def known_result(self, name: str) -> Any:
        """A result of the program; None where it is not known."""
        return self.result(name) if (self.folder / f"{name}.npz").exists() else None

    def result(self, name: str) -> Any:
        """A result of the program, which must be there."""
        arrays, _ = read(self.folder / f"{name}.npz", f"result named {name}")
        return RESULTS[name](**{key: part if part.ndim else part.item() for key, part in arrays.items()})

    def secret(self) -> bytes:
        """What only this site knows in this run, made the first time."""
        path = self.folder / "secret"
        try:
            if not path.exists():
                with whole(path) as partial:
                    partial.touch(mode=0o600)
                    partial.write_bytes(os.urandom(SECRET))
            secret = path.read_bytes()
        except OSError as error:
            raise FileError(f"cannot keep {path}: {error.strerror}") from error
        if len(secret) != SECRET:
            raise FileError(f"{path} is damaged: it has {len(secret)} bytes, not {SECRET}; restore it")
        return secret

    def _checkpoint(self, round: int) -> Path:
        return self.folder / "checkpoints" / f"{round:010d}.npz"

    def write_checkpoint(self, round: int, theta: Theta) -> None:
        """Keep a numbered estimate, from which sites can agree to go on."""
        write(self._checkpoint(round), theta._asdict(), {"what": "checkpoint", "round": round})
        for old in self.checkpoints()[:-CHECKPOINTS]:
            self._checkpoint(old).unlink()

    def checkpoints(self) -> list[int]:
        """The rounds of the checkpoints."""
        return sorted(int(path.stem) for path in (self.folder / "checkpoints").glob("[0-9]*.npz"))

    def checkpoint(self, round: int) -> Theta:
        """The estimate of a round."""
        if round not in self.checkpoints():
            known = ", ".join(map(str, self.checkpoints())) or "none but 0, the beginning"
            raise FederationError(f"this site has no checkpoint of round {round}; it has {known}")
        arrays, _ = read(self._checkpoint(round))
        return Theta(arrays["weights"], arrays["means"], arrays["covariances"])

    def write_end(self, **end: Any) -> None:
        """Keep how the run ended."""
        write_json(self.folder / "end.json", end)

    def end(self) -> dict[str, Any] | None:
        """How the run ended, if it has."""
        return self._read_json("end.json")

    def _read_json(self, name: str) -> dict[str, Any] | None:
        path = self.folder / name
        try:
            content = json.loads(path.read_text()) if path.exists() else None
        except (OSError, ValueError) as error:
            raise FileError(f"{path} cannot be read: {error}") from error
        return content if isinstance(content, dict) else None


def digest_of(local: LocalData) -> str:
    """A digest of the rows, to see whether they are the same."""
    digest = hashlib.sha256()
    for part in local:
        digest.update(b"none" if part is None else np.ascontiguousarray(part).tobytes())
    return digest.hexdigest()
