"""Which Host headers a local server accepts."""

from __future__ import annotations

import socket

import pytest

from lmms_eval_ad2.core.served_hosts import allowed_names, host_fault, is_loopback

OWN = socket.gethostname()


@pytest.mark.parametrize(
    ("header", "bound"),
    [
        (None, "127.0.0.1"),
        ("127.0.0.1:8100", "127.0.0.1"),
        ("localhost", "127.0.0.1"),
        ("LOCALHOST.:80", "127.0.0.1"),
        ("127.0.0.2", "127.0.0.1"),
        ("[::1]:8100", "127.0.0.1"),
        ("10.0.0.5:8100", "10.0.0.5"),
        ("gpu7:8100", "gpu7"),
        ("10.0.0.5", "0.0.0.0"),
        ("[fd00::1]:8100", "::"),
        (OWN, "0.0.0.0"),
        (f"{OWN.partition('.')[0]}.local:1", "0.0.0.0"),
        ("proxy.example", "127.0.0.1"),
    ],
)
def test_names_of_this_server(header: str | None, bound: str) -> None:
    assert host_fault(header, bound, allowed_names("proxy.example, b,")) is None


@pytest.mark.parametrize(
    ("header", "bound"),
    [
        ("evil.example", "127.0.0.1"),
        ("evil.example:8100", "0.0.0.0"),
        ("127.0.0.1.evil.example", "127.0.0.1"),
        ("localhost.evil.example", "127.0.0.1"),
        ("10.0.0.6", "10.0.0.5"),
        ("", "127.0.0.1"),
        ("[::1].evil", "10.0.0.5"),
        ("x" * 5000, "0.0.0.0"),
    ],
)
def test_other_names(header: str, bound: str) -> None:
    fault = host_fault(header, bound)
    assert fault and "--allow-host" in fault and len(fault) < 600


def test_loopback() -> None:
    assert is_loopback("127.0.0.9") and is_loopback("::1") and is_loopback("localhost")
    assert not is_loopback("0.0.0.0") and not is_loopback("gpu7") and not is_loopback("localhost.evil")
