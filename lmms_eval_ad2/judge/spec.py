"""From what a user wrote to a judge: a short line, a YAML file or a mapping.

    lexical | fake | fake:score=7,fail_every=10 | embedding:NAME_OR_FOLDER
    openai:model=gpt-4o-2024-11-20,base_url=http://host/v1,concurrency=64
    path/to/judge.yaml        the same keys, with `backend: openai` and so on

Keys never come from here: only from the environment.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import yaml

from lmms_eval_ad2.errors import Ad2Error
from lmms_eval_ad2.judge.base import HIGHEST, LOWEST, Judge
from lmms_eval_ad2.judge.names import check_keys, one_of

BACKENDS = ("lexical", "embedding", "openai", "fake")
VARIABLE = "AD2_JUDGE"
OPENAI_URL = "https://api.openai.com/v1"
_FIRST = {"embedding": "model", "openai": "model"}  # what a value without a key means
_OPENAI = (
    "model", "base_url", "api_key_env", "concurrency", "timeout", "max_retries", "rpm", "backoff", "temperature",
    "seed", "max_tokens", "max_tokens_key", "extra", "rubrics", "official_dir", "system_files", "reply",
    "price_prompt", "price_completion",
)  # fmt: skip
_PATHS = ("rubrics", "official_dir")


def read(spec: str | Path | Mapping[str, Any] | None) -> dict[str, Any]:
    """A mapping with `backend`; relative paths of a YAML file are taken from its folder.

    Raises Ad2Error for what is neither a backend nor a readable file.
    """
    if spec is None:
        spec = os.environ.get(VARIABLE) or "lexical"
    if isinstance(spec, Mapping):
        return _checked(dict(spec), "the judge's settings")
    text = str(spec).strip()
    name, colon, rest = text.partition(":")
    if name in BACKENDS:
        return _checked({"backend": name, **_pairs(name, rest)}, f"judge '{name}{colon}…'")
    path = Path(text).expanduser()
    if path.suffix in (".yaml", ".yml") or path.is_file():
        return _from_file(path)
    return {"backend": one_of(name, BACKENDS, "judge (and no YAML file)")}


def _pairs(backend: str, text: str) -> dict[str, Any]:
    """`a=1,b=x` -> {"a": 1, "b": "x"}; what comes first may stand without its key (embedding:NAME)."""
    if not text.strip():
        return {}
    pairs: dict[str, Any] = {}
    for part in text.split(","):
        key, equals, value = (s.strip() for s in part.partition("="))
        if not equals:
            if backend not in _FIRST or pairs:
                raise Ad2Error(f"judge {backend}: expected KEY=VALUE, found '{part}'")
            key, value = _FIRST[backend], part.strip()
        pairs[key] = _value(key, value)
    return pairs


def _value(key: str, text: str) -> Any:
    if key in ("model", "name", "base_url"):  # a model may be called 4 or on
        return text
    try:
        return yaml.safe_load(text)
    except yaml.YAMLError:
        return text


def _from_file(path: Path) -> dict[str, Any]:
    try:
        data = yaml.safe_load(path.read_text("utf-8"))
    except (OSError, UnicodeDecodeError) as exc:
        raise Ad2Error(f"cannot read the judge's file {path}: {exc}") from exc
    except yaml.YAMLError as exc:
        raise Ad2Error(f"{path} is not YAML: {exc}") from exc
    if not isinstance(data, dict):
        raise Ad2Error(f"{path}: expected a mapping with the key 'backend' ({', '.join(BACKENDS)})")
    for key in _PATHS:
        if data.get(key):
            data[key] = str(path.parent / Path(str(data[key])).expanduser())
    if isinstance(data.get("system_files"), dict):
        data["system_files"] = {
            k: str(path.parent / Path(str(v)).expanduser()) for k, v in data["system_files"].items()
        }
    return _checked(data, str(path))


def _checked(data: dict[str, Any], where: str) -> dict[str, Any]:
    if "api_key" in data:
        raise Ad2Error(f"{where}: no key belongs here; set OPENAI_API_KEY, or name another variable with api_key_env")
    backend = one_of(data.get("backend"), BACKENDS, "judge backend")
    check_keys((k for k in data if k != "backend"), KEYS[backend], where)
    return data


def build(settings: Mapping[str, Any], cache: Path | None) -> Judge:
    """The judge of checked settings (`read`)."""
    return _BUILDERS[settings["backend"]](settings, cache)


def _lexical(settings: Mapping[str, Any], cache: Path | None) -> Judge:
    from lmms_eval_ad2.judge.lexical import LexicalJudge

    return LexicalJudge()


def _fake(settings: Mapping[str, Any], cache: Path | None) -> Judge:
    from lmms_eval_ad2.judge.fake import FakeJudge

    score = _number(settings, "score", None, low=LOWEST, high=HIGHEST)
    return FakeJudge(score=score, fail_every=_whole(settings, "fail_every", 0, low=0))


def _embedding(settings: Mapping[str, Any], cache: Path | None) -> Judge:
    from lmms_eval_ad2.judge.embedding import EmbeddingJudge

    return EmbeddingJudge(
        str(settings.get("model") or ""),
        name=str(settings.get("name") or ""),
        device=str(settings.get("device") or "cpu"),
        batch_size=_whole(settings, "batch_size", 64, low=1),
    )


def _openai(settings: Mapping[str, Any], cache: Path | None) -> Judge:
    from lmms_eval_ad2.judge import sources
    from lmms_eval_ad2.judge.engine import LLMJudge, Price, Sampling
    from lmms_eval_ad2.llm.client import Endpoint

    model = str(settings.get("model") or "")
    if not model:
        raise Ad2Error("judge openai: which model? e.g. openai:model=gpt-4o-2024-11-20 (a dated name, not an alias)")
    base_url = _url(str(settings.get("base_url") or os.environ.get("OPENAI_BASE_URL") or OPENAI_URL))
    endpoint = Endpoint(
        base_url=base_url,
        api_key=_key(settings.get("api_key_env"), base_url),
        timeout_s=_number(settings, "timeout", 60.0, low=0.001) or 60.0,
        max_retries=_whole(settings, "max_retries", 6, low=0),
        concurrency=_whole(settings, "concurrency", 64, low=1),
        rpm=_number(settings, "rpm", None, low=0.001),
        backoff_s=_number(settings, "backoff", 0.5, low=0.0) or 0.0,
        seed=_whole(settings, "seed", 0),
    )
    temperature = _number(settings, "temperature", 0.0, low=0.0)
    seed = None if settings.get("seed", 0) is None else _whole(settings, "seed", 0)
    sampling = Sampling(
        model, temperature, seed, _whole(settings, "max_tokens", 1024, low=1),
        one_of(settings.get("max_tokens_key", "max_tokens"), ("max_tokens", "max_completion_tokens"), "max_tokens_key"),
        _mapping(settings, "extra"),
    )  # fmt: skip
    rubrics = sources.load(
        override=_path(settings, "rubrics"),
        official_dir=_path(settings, "official_dir"),
        system_files=_mapping(settings, "system_files"),
        reply=_mapping(settings, "reply"),
    )
    prices = [_number(settings, key, None, low=0.0) for key in ("price_prompt", "price_completion")]
    price = Price(prices[0] or 0.0, prices[1] or 0.0) if any(p is not None for p in prices) else None
    return LLMJudge(endpoint, sampling, rubrics, cache=cache, price=price)


def _url(text: str) -> str:
    parts = urlsplit(text)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise Ad2Error(f"base_url: expected http(s)://host[:port]/v1, found '{parts.hostname or text}'")
    if parts.username or parts.password or parts.query:
        raise Ad2Error(
            f"base_url of {parts.hostname}: no names, passwords or queries belong in it; keys come from the environment"
        )
    return text.rstrip("/")


def _key(variable: Any, base_url: str) -> str:
    """The key from the environment; OpenAI needs one, a server of one's own may not."""
    key = os.environ.get(str(variable or "OPENAI_API_KEY"), "").strip()
    if not key and variable:
        raise Ad2Error(f"the environment variable {variable} (api_key_env) is not set")
    if not key and urlsplit(base_url).hostname == "api.openai.com":
        raise Ad2Error("OPENAI_API_KEY is not set; for a server of your own name base_url=http://host:port/v1")
    return key


def _number(
    settings: Mapping[str, Any],
    key: str,
    default: float | None,
    *,
    low: float = float("-inf"),
    high: float = float("inf"),
) -> float | None:
    value = settings.get(key, default)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not low <= value <= high:
        raise Ad2Error(f"judge setting {key}: expected a number from {low:g} to {high:g}, found {value!r}")
    return float(value)


def _whole(settings: Mapping[str, Any], key: str, default: int, *, low: int | None = None) -> int:
    value = settings.get(key)
    value = default if value is None else value
    if isinstance(value, bool) or not isinstance(value, int) or (low is not None and value < low):
        raise Ad2Error(
            f"judge setting {key}: expected a whole number{'' if low is None else f' from {low}'}, found {value!r}"
        )
    return value


def _mapping(settings: Mapping[str, Any], key: str) -> dict[str, Any]:
    value = settings.get(key) or {}
    if not isinstance(value, Mapping):
        raise Ad2Error(f"judge setting {key}: expected a mapping (in a YAML file), found {value!r}")
    return dict(value)


def _path(settings: Mapping[str, Any], key: str) -> Path | None:
    value = settings.get(key)
    return Path(str(value)).expanduser() if value else None


KEYS: dict[str, tuple[str, ...]] = {
    "lexical": (),
    "fake": ("score", "fail_every"),
    "embedding": ("model", "name", "device", "batch_size"),
    "openai": _OPENAI,
}
_BUILDERS: dict[str, Callable[[Mapping[str, Any], Path | None], Judge]] = {
    "lexical": _lexical,
    "fake": _fake,
    "embedding": _embedding,
    "openai": _openai,
}
