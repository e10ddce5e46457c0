"""Error replies: OpenAI's error object with its HTTP status."""

from __future__ import annotations

import reprlib
from typing import Any

_SHORT = reprlib.Repr()  # bounded in depth and length: the values shown come from clients
_SHORT.maxstring = _SHORT.maxother = 80
_TYPES = {401: "authentication_error", 429: "rate_limit_error"}


class ApiError(Exception):
    """A request that is refused or failed.

    `param`: the invalid field of the request; `code`: a short stable name; `retry_s`: seconds for Retry-After.
    """

    def __init__(
        self, status: int, message: str, *, param: str | None = None, code: str | None = None, retry_s: int = 0
    ) -> None:
        super().__init__(message)
        self.status, self.message, self.param, self.code, self.retry_s = status, message, param, code, retry_s

    @property
    def body(self) -> dict[str, Any]:
        kind = _TYPES.get(self.status, "server_error" if self.status >= 500 else "invalid_request_error")
        return {"error": {"message": self.message, "type": kind, "param": self.param, "code": self.code}}

    @property
    def headers(self) -> dict[str, str]:
        return {"Retry-After": str(self.retry_s)} if self.retry_s else {}


def wrong(param: str, expected: str, found: Any = None) -> ApiError:
    """HTTP 400 for an invalid field; the found value is shortened."""
    shown = "" if found is None else f", found {_SHORT.repr(found)}"
    return ApiError(400, f"{param}: expected {expected}{shown}", param=param, code="invalid_value")
