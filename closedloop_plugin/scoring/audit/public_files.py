"""Obtaining the files of an audit, from a folder or from their repositories; every file is checked by its hash.

A given file is recognised by its sha256, whatever its name. Downloaded ones are DIR/ID.json and DIR/routes.xml; a
result with one file per route is DIR/ID/ROUTE.json in both folders. A file that is in neither is downloaded into the
second one, once, in one attempt: the first failure ends the command, and files that are complete stay. Content appears
under its name only after its hash was checked.
"""

from __future__ import annotations

import hashlib
import queue
import shutil
import threading
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from http.client import HTTPException
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import quote, urlsplit

from closedloop_plugin.core.routes import valid_route_id
from closedloop_plugin.scoring.audit import HOST
from closedloop_plugin.scoring.audit.result_list import ROUTE, PublicFile
from lmms_eval_ad2.core.errors import Ad2Error
from lmms_eval_ad2.core.printed import one_line
from lmms_eval_ad2.storage.files import atomic_write_bytes, file_sha256

T = TypeVar("T")
MOST_BYTES = 32 << 20  # of one file
TIMEOUT_S = 30.0  # without a byte
DEADLINE_S = 600.0  # of one file


@dataclass(frozen=True)
class FileSources:
    """Where to look for a file: `given` (not written to), then `downloaded`, then under the address `host`."""

    downloaded: Path
    given: Path | None = None
    host: str = HOST
    most_bytes: int = MOST_BYTES
    deadline_s: float = DEADLINE_S

    def find(self, file: PublicFile, name: str, routes: Sequence[str] = ()) -> Path:
        """Path of the file, or of the folder of a result with one file per route. Raises Ad2Error."""
        if not file.by_route and (known := self._given_by_hash.get(file.sha256)):
            return known
        disk_name = name if file.by_route else f"{name}{file.suffix}"
        for folder in (self.given, self.downloaded):
            if folder is not None and (path := folder / disk_name).exists():
                _check(path, file, routes)
                return path
        path = self.downloaded / disk_name
        try:
            if file.by_route:
                self._download_parts(path, file, routes)
            else:
                content = self._download(file, file.path, disk_name)
                _compare(hashlib.sha256(content).hexdigest(), file, _address(self.host, file, file.path))
                atomic_write_bytes(path, content)
        except OSError as exc:
            raise Ad2Error(f"{path}: cannot be written ({exc.strerror or exc})") from exc
        return path

    @cached_property
    def _given_by_hash(self) -> Mapping[str, Path]:
        """sha256 -> path of the files directly in `given` that may be listed ones; unreadable ones are left out."""
        found: dict[str, Path] = {}
        try:
            paths = sorted(self.given.iterdir()) if self.given else []
        except OSError as exc:
            raise Ad2Error(f"--files {self.given}: cannot be read ({exc.strerror})") from exc
        for path in paths:
            try:
                if path.is_file() and path.stat().st_size <= self.most_bytes:
                    found.setdefault(file_sha256(path), path)
            except OSError:
                continue
        return found

    def _by_hand(self, file: PublicFile, disk_name: str) -> str:
        """What to do if a file cannot be downloaded."""
        if file.by_route:
            looked = f" ({self.given} has no folder {Path(disk_name).parent})" if self.given else ""
            return f"get it by another way and give its folder: --files DIR, with the name {disk_name} in DIR{looked}"
        looked = f"; none of the {len(self._given_by_hash)} file(s) of {self.given} has it" if self.given else ""
        return (
            "get it by another way and give its folder: --files DIR, under any name (it is recognised by its sha256, "
            f"{file.sha256}{looked})"
        )

    def _download_parts(self, path: Path, file: PublicFile, routes: Sequence[str]) -> None:
        """One file per route into a folder that gets its name when all of them are there and have the right hash."""
        partial = path.with_name(f".{path.name}.partial")  # kept after a failure: the next start continues in it
        for route in routes:
            part = _part(partial, route)
            if not part.is_file():
                content = self._download(file, file.path.replace(ROUTE, route), f"{path.name}/{route}.json")
                atomic_write_bytes(part, content, durable=False)
        try:
            _compare(listing_sha256(partial, file, routes), file, f"{len(routes)} files of {file.repository}")
        except Ad2Error:
            shutil.rmtree(partial)
            raise
        partial.rename(path)

    def _download(self, file: PublicFile, path: str, disk_name: str) -> bytes:
        address = _address(self.host, file, path)
        by_hand = self._by_hand(file, disk_name)
        if not address.startswith(("https://", "http://")):
            raise Ad2Error(f"{address}: not an address that begins with https:// or http://")
        try:
            content, announced = _within(self.deadline_s, lambda: _read(address, self.most_bytes + 1))
        except urllib.error.HTTPError as exc:
            raise Ad2Error(f"{address}: the server answered {exc.code} {exc.reason}; {by_hand}") from exc
        except (OSError, HTTPException, ValueError) as exc:
            reason = getattr(exc, "reason", None) or exc
            raise Ad2Error(f"{address}: cannot be downloaded ({reason}); {by_hand}") from exc
        if len(content) > self.most_bytes:
            raise Ad2Error(f"{address}: larger than {self.most_bytes} bytes; {by_hand}")
        if announced is not None and announced.isdigit() and len(content) < int(announced):
            raise Ad2Error(f"{address}: the connection ended after {len(content)} of {announced} bytes; start again")
        return content


class _SameHost(urllib.request.HTTPRedirectHandler):
    """Follow redirects only to the host of the list: that is the address printed for the user."""

    def redirect_request(self, req: Any, fp: Any, code: int, msg: str, headers: Any, newurl: str) -> Any:
        old, new = urlsplit(req.full_url), urlsplit(newurl)
        if (new.scheme, new.netloc) != (old.scheme, old.netloc):
            raise urllib.error.URLError(f"it redirects to {one_line(new.scheme)}://{one_line(new.netloc)}")
        return super().redirect_request(req, fp, code, msg, headers, newurl)


def _read(address: str, most: int) -> tuple[bytes, str | None]:
    """At most this many bytes of the content, and the announced number."""
    with urllib.request.build_opener(_SameHost).open(address, timeout=TIMEOUT_S) as response:
        return response.read(most), response.headers.get("Content-Length")


def _within(seconds: float, call: Callable[[], T]) -> T:
    """The result of `call`; raises TimeoutError after so long, however slowly a server sends head or content."""
    results: queue.SimpleQueue[tuple[bool, Any]] = queue.SimpleQueue()

    def work() -> None:
        try:
            results.put((True, call()))
        except Exception as exc:
            results.put((False, exc))

    threading.Thread(target=work, name="ad2-download", daemon=True).start()
    try:
        succeeded, result = results.get(timeout=seconds)
    except queue.Empty:
        raise TimeoutError(f"not complete after {seconds:g} s") from None
    if succeeded:
        found: T = result
        return found
    raise result


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


def _address(host: str, file: PublicFile, path: str) -> str:
    return f"{host.rstrip('/')}/{file.repository}/{file.commit}/{quote(path)}"


def _check(path: Path, file: PublicFile, routes: Sequence[str]) -> None:
    if path.is_dir() != file.by_route:
        raise Ad2Error(f"{path}: expected {'a folder with one file per route' if file.by_route else 'a file'}")
    _compare(listing_sha256(path, file, routes) if file.by_route else _hash_of(path), file, str(path))


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
