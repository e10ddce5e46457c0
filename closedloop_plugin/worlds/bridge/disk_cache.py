"""Where Scenic's parsing is cached on disk: translated programs and road networks, each by the hash of its source.

    programs/SHA256.json    a translated program (translation.py), 60 kB
    networks/SHA256.snet    a parsed map (networks.py) as Scenic's pickle, 1 MB; empty: it was used once

The hash covers the source's bytes and the versions of all that parses it. Both end as running code, so they are read
from private folders only; see lmms_eval_ad2/storage/private_cache.py and docs/security.md.
"""

from __future__ import annotations

import hashlib
import sys
from functools import cache
from importlib.metadata import version
from pathlib import Path

from lmms_eval_ad2.storage.private_cache import PrivateCache

FORMAT = 2  # of the entries
PROGRAMS, NETWORKS = "programs", "networks"
MOST = {PROGRAMS: 300, NETWORKS: 256}

_CACHES: dict[str, PrivateCache] = {}


def use_disk_cache(folder: Path) -> None:
    """Cache below this folder from now on."""
    _CACHES.update((kind, PrivateCache(Path(folder) / kind, most)) for kind, most in MOST.items())


def disk_cache(kind: str) -> PrivateCache | None:
    """The cache of PROGRAMS or NETWORKS; None before `use_disk_cache`."""
    return _CACHES.get(kind)


def entry_name(source: bytes, suffix: str) -> str:
    """Name of the entry of a source."""
    return hashlib.sha256(_versions() + source).hexdigest() + suffix


@cache
def _versions() -> bytes:
    packages = [f"{name} {version(name)}" for name in ("scenic", "shapely", "numpy", "scipy")]
    return "\n".join([str(FORMAT), sys.version, *packages, ""]).encode()
