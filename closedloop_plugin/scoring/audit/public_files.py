"""Obtaining the files of an audit from their repositories; every file is checked by its hash.

Files are FOLDER/ID.json and FOLDER/routes.xml; a result with one file per route is FOLDER/ID/ROUTE.json. One that is
not there yet is downloaded once, in one attempt: the first failure ends the command, and files that are complete stay.
Content appears under its name only after its hash was checked.
"""

from __future__ import annotations

import asyncio
import hashlib
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from closedloop_plugin.core.routes import valid_route_id
from closedloop_plugin.scoring.audit.result_list import ROUTE, PublicFile
from lmms_eval_ad2.core.errors import Ad2Error
from lmms_eval_ad2.core.printed import one_line
from lmms_eval_ad2.storage.files import atomic_write_bytes, file_sha256

MOST_BYTES = 32 << 20  # of one file
TIMEOUT_S = 30.0  # without a byte
DEADLINE_S = 600.0  # of one file, however slowly a server sends its head or content


@dataclass(frozen=True)
class FileSources:
    """Where to look for a file: in `folder`, then under the address `host`, from which it is copied to the folder."""

    folder: Path
    host: str
    most_bytes: int = MOST_BYTES
    deadline_s: float = DEADLINE_S

    def find(self, file: PublicFile, name: str, routes: Sequence[str] = ()) -> Path:
        """Path of the file, or of the folder of a result with one file per route. Raises Ad2Error."""
        path = self.folder / (name if file.by_route else name + Path(file.path).suffix)
        if path.exists():
            if path.is_dir() != file.by_route:
                raise Ad2Error(f"{path}: expected {'a folder with one file per route' if file.by_route else 'a file'}")
            _compare(listing_sha256(path, file, routes) if file.by_route else _hash_of(path), file, str(path))
            return path
        try:
            if file.by_route:
                self._download_parts(path, file, routes)
            else:
                content = self._download(file, file.path, path)
                _compare(hashlib.sha256(content).hexdigest(), file, self._address(file, file.path))
                atomic_write_bytes(path, content)
        except OSError as exc:
            raise Ad2Error(f"{path}: cannot be written ({exc.strerror or exc})") from exc
        return path

    def _download_parts(self, path: Path, file: PublicFile, routes: Sequence[str]) -> None:
        """One file per route into a folder that gets its name when all of them are there and have the right hash."""
        partial = path.with_name(f".{path.name}.partial")  # kept after a failure: the next start continues in it
        for route in routes:
            part = _part(partial, route)
            if not part.is_file():
                content = self._download(file, file.path.replace(ROUTE, route), path / part.name)
                atomic_write_bytes(part, content, durable=False)
        try:
            _compare(listing_sha256(partial, file, routes), file, f"{len(routes)} files of {file.repository}")
        except Ad2Error:
            shutil.rmtree(partial)
            raise
        partial.rename(path)

    def _address(self, file: PublicFile, path: str) -> str:
        return f"{self.host.rstrip('/')}/{file.repository}/{file.commit}/{quote(path)}"

    def _download(self, file: PublicFile, path: str, target: Path) -> bytes:
        import aiohttp  # slow to import

        address = self._address(file, path)
        if not address.startswith(("https://", "http://")):
            raise Ad2Error(f"{address}: not an address that begins with https:// or http://")
        by_hand = f"get it by another way and store it as {target}"
        if not file.by_route:
            by_hand += f" (its sha256 is {file.sha256})"
        try:
            status, reason, content = asyncio.run(self._get(address))
        except (aiohttp.ClientError, OSError, ValueError) as exc:  # TimeoutError is an OSError
            reason = one_line(str(exc)) or f"not complete after {self.deadline_s:g} s"
            raise Ad2Error(f"{address}: cannot be downloaded ({reason}); {by_hand}") from exc
        if status != 200:
            raise Ad2Error(f"{address}: the server answered {status} {one_line(reason)}; {by_hand}")
        if len(content) > self.most_bytes:
            raise Ad2Error(f"{address}: larger than {self.most_bytes} bytes; {by_hand}")
        return content

    async def _get(self, address: str) -> tuple[int, str, bytes]:
        """Status, its text and the content up to the limit; without redirects, whose host the user would not see."""
        import aiohttp

        timeout = aiohttp.ClientTimeout(total=self.deadline_s, sock_read=TIMEOUT_S)
        plain = {"Accept-Encoding": "identity"}
        async with (
            aiohttp.ClientSession(timeout=timeout, headers=plain, trust_env=True, auto_decompress=False) as session,
            session.get(address, allow_redirects=False) as response,
        ):
            content = bytearray()
            async for chunk in response.content.iter_any():
                content += chunk
                if len(content) > self.most_bytes:
                    break
            return response.status, response.reason or "", bytes(content)


def listing_sha256(folder: Path, file: PublicFile, routes: Sequence[str]) -> str:
    """The sha256 of a result with one file per route: of the sorted lines "<sha256>  <path>"; see result_list.py."""
    lines = []
    for route in routes:
        part = _part(folder, route)
        if not part.is_file():
            raise Ad2Error(f"{part}: missing; {file.repository} has one file for each of the {len(routes)} routes")
        lines.append(f"{_hash_of(part)}  {file.path.replace(ROUTE, route)}\n")
    return hashlib.sha256("".join(sorted(lines)).encode()).hexdigest()


def _part(folder: Path, route: str) -> Path:
    """The file of a route. Route ids come from a downloaded file: a path in one could lead out of the folder."""
    if not valid_route_id(route):
        raise Ad2Error(f"{folder.name}: the route id {route!r} cannot be part of a file name")
    return folder / f"{route}.json"


def _hash_of(path: Path) -> str:
    try:
        return file_sha256(path)
    except OSError as exc:
        raise Ad2Error(f"{path}: cannot be read ({exc.strerror})") from exc


def _compare(found: str, file: PublicFile, where: str) -> None:
    if found != file.sha256:
        raise Ad2Error(
            f"{where}: sha256 is {found}, the list has {file.sha256} for {file.path} of {file.repository} at commit "
            f"{file.commit[:12]}: another version of the file; remove it or correct the list"
        )
