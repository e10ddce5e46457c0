"""HTTP statuses and codes with which an endpoint refuses every request: wrong key, address or model, no credit."""

from __future__ import annotations

# The key, the account or the address is wrong, not the request: every further request would fail as well.
FATAL_STATUS = (401, 402, 403, 404, 405)
FATAL_CODES = ("insufficient_quota", "billing_hard_limit_reached", "model_not_found")
_REMEDIES = {
    402: "The account has no credit left",
    403: "The key has no right to this model or endpoint",
    404: "Check the model's name, and that base_url ends as the server's does (often in /v1)",
    405: "Check base_url: the server at this address is no chat endpoint",
    429: "The account has no credit left",
}


def remedy(status: int, variable: str) -> str:
    """What the user should check, or "". `variable`: where the key comes from."""
    if status < 400:
        return "It points elsewhere, and requests with a key do not follow redirects: correct base_url"
    if status == 401:
        return f"Is the key in the environment right? ({variable})"
    return _REMEDIES.get(status, "")
