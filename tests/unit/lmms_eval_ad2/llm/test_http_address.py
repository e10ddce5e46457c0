"""llm/http_address: which addresses and proxies can be used."""

from __future__ import annotations

from pathlib import Path

import pytest

from closedloop_plugin.driver.agents.endpoint import EndpointModel
from lmms_eval_ad2.core.errors import Ad2Error
from lmms_eval_ad2.judge.spec import build, read
from lmms_eval_ad2.llm.client import ChatClient
from lmms_eval_ad2.llm.http_address import EndpointConfig, HttpAddress, checked_urls, split_urls
from lmms_eval_ad2.llm.model import read_model

ONE, TWO = "http://a:8000/v1", "https://b/v1+x"
BOTH = f"{ONE}+{TWO}"


def test_a_plus_joins_urls_only_before_a_scheme() -> None:
    assert split_urls(BOTH) == (ONE, TWO)
    assert checked_urls(f"{ONE}/+{TWO}") == checked_urls([ONE, TWO]) == BOTH
    assert EndpointConfig(BOTH, concurrency=3).in_flight == 6


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ([], "empty"),
        (f"{ONE}+{ONE}/", "named twice"),
        (f"{ONE}+http://user:word@b/v1", "user names"),
        ([ONE, "b:8000/v1"], "expected http"),
    ],
)
def test_mistakes_are_one_line(given: str | list[str], why: str) -> None:
    with pytest.raises(Ad2Error, match=why) as caught:
        checked_urls(given)
    assert "word@" not in str(caught.value)


def test_every_kind_of_specification_takes_several_servers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "judge.yaml"
    file.write_text(f"backend: openai\nmodel: m\nbase_url:\n  - {ONE}\n  - {TWO}\n")
    for spec in (str(file), f"openai:model=m,base_url={BOTH},concurrency=4"):
        assert build(read(spec), None).describe()["base_url"] == BOTH
    assert read_model(f"endpoint:m@{BOTH}").endpoint.base_url == BOTH
    assert EndpointModel.from_spec(f"m@{BOTH}").describe()["base_url"] == BOTH
    monkeypatch.setenv("OPENAI_BASE_URL", BOTH)
    assert read_model("openai:m").endpoint.base_url == BOTH


def test_the_key_of_openai_is_required_for_any_of_the_servers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    with pytest.raises(Ad2Error, match="OPENAI_API_KEY"):
        read_model(f"openai:model=m,base_url={ONE}+https://api.openai.com/v1")


@pytest.fixture(autouse=True)
def no_proxies(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "https_proxy", "all_proxy", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)


@pytest.mark.parametrize(
    ("url", "host", "port"),
    [
        ("http://gpu1/v1", "gpu1", 80),
        ("https://gpu1/v1", "gpu1", 443),
        ("http://127.0.0.1:8000/v1", "127.0.0.1", 8000),
        ("http://[::1]:8000/v1", "::1", 8000),
    ],
)
def test_host_and_port(url: str, host: str, port: int) -> None:
    address = HttpAddress.of(url)
    assert (address.host, address.port, address.proxy) == (host, port, None)


@pytest.mark.parametrize(
    "url",
    [
        "",
        "host/v1",
        "ftp://host/v1",
        "http://",
        "http://host:port/v1",
        "http://gpu1..local/v1",
        f"http://{'a' * 64}/v1",
    ],
)
def test_an_address_that_is_no_url_is_a_users_mistake(url: str) -> None:
    with pytest.raises(Ad2Error, match="base_url"):
        ChatClient(EndpointConfig(url))


@pytest.mark.parametrize("key", ["sk-a\r\nX: b", "sk-a\nX: b", "sk-a\x00", "sk-a…"])
def test_a_key_that_no_header_can_have_is_refused(key: str) -> None:
    with pytest.raises(Ad2Error, match="line break") as caught:
        ChatClient(EndpointConfig("http://host/v1", api_key=key))
    assert "sk-a" not in str(caught.value)


def test_no_proxy_is_used_for_the_hosts_of_no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", "http://proxy.test:1")
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    assert HttpAddress.of("http://127.0.0.1:8000/v1").proxy is None
    assert HttpAddress.of("http://10.1.1.1:8000/v1").proxy == "http://proxy.test:1"
    assert HttpAddress.of("https://10.1.1.1:8000/v1").proxy is None


def test_a_proxy_without_a_scheme_is_one_of_http(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", "proxy.test:3128")
    assert HttpAddress.of("http://host.test/v1").proxy == "http://proxy.test:3128"


def test_the_user_of_a_proxy_is_sent_to_the_proxy_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", "http://user:p%40ss@proxy.test:3128")
    monkeypatch.setenv("https_proxy", "http://user:p%40ss@[::1]:3128")
    sent = {"Proxy-Authorization": "Basic dXNlcjpwQHNz"}
    plain, tunnel = (
        HttpAddress.of("http://host.test/v1", {"A": "b"}),
        HttpAddress.of("https://host.test/v1", {"A": "b"}),
    )
    assert (plain.proxy, plain.headers, plain.proxy_headers) == ("http://proxy.test:3128", {"A": "b"} | sent, {})
    assert (tunnel.proxy, tunnel.headers, tunnel.proxy_headers) == ("http://[::1]:3128", {"A": "b"}, sent)
    assert "dXNlcjpwQHNz" not in repr((plain, tunnel))


@pytest.mark.parametrize(
    "proxy", ["socks5://user:secret@proxy:1080", "http://proxy:80x80", "http://user:secret@a..b:1"]
)
def test_a_proxy_that_cannot_be_used_is_named_by_its_variable(monkeypatch: pytest.MonkeyPatch, proxy: str) -> None:
    monkeypatch.setenv("http_proxy", proxy)
    with pytest.raises(Ad2Error, match="environment variable http_proxy") as caught:
        ChatClient(EndpointConfig("http://host.test/v1"))
    assert "secret" not in str(caught.value) and "base_url" not in str(caught.value)
