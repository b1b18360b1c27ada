"""How gaussip compiles with Numba: once on each machine, for as long as none of the kernels' sources changes."""

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any
from uuid import uuid4

from numba import njit

STAMP = hashlib.sha256(
    b"\0".join(file.read_bytes() for file in sorted(Path(__file__).parent.glob("*.py")))
).hexdigest()

PROCESS = uuid4().hex


def compiled(**options: Any) -> Callable[[Callable[..., Any]], Any]:
    """Numba's decorator, with a cache on disk that is as fresh as all the kernels' sources.

    Numba by itself looks at the file of the function alone, not at those with the instructions that go into it. There
    is no public way to say more, so this sets two private attributes of its cache: pyproject.toml bounds Numba's
    version, and tests/test_kernels.py fails where they have no effect.
    """

    def decorate(function: Callable[..., Any]) -> Any:
        try:
            function_on_disk = njit(cache=True, **options)(function)
        except RuntimeError:  # there is no folder that compiled code can be kept in
            return njit(**options)(function)
        file = function_on_disk._cache._cache_file
        file._source_stamp = STAMP
        # processes that compile at once must not find each other's code under one number
        file._data_name_pattern = file._data_name_pattern.replace("{number", f"{PROCESS}-{{number")
        return function_on_disk

    return decorate
