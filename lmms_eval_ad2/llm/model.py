"""Language models from a user's specification: a short text, a YAML file or a mapping.

    openai:model=gpt-4o-2024-11-20,base_url=http://host/v1,concurrency=64
    endpoint:MODEL@http://host:port/v1,concurrency=64      the same, as written for the closed loop
    path/to/model.yaml        the same keys, with `backend: openai`

Keys besides those of settings.py: `structured` = json_schema | json_object | none, how a JSON reply is requested
(servers support different ways; the reply is checked in any case), and price_prompt, price_completion.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import yaml

from lmms_eval_ad2.core.errors import Ad2Error, yaml_fault
from lmms_eval_ad2.llm.request_body import EncodedJson
from lmms_eval_ad2.llm.settings import (
    ENDPOINT_KEYS,
    PRICE_KEYS,
    CheckedSettings,
    EndpointSampling,
    TokenPrice,
    check_keys,
    endpoint,
    one_of,
    price,
    sampling,
)
from lmms_eval_ad2.storage import user_yaml

if TYPE_CHECKING:
    from lmms_eval_ad2.llm.http_address import EndpointConfig

Structured = Literal["json_schema", "json_object", "none"]
STRUCTURED: tuple[Structured, ...] = ("json_schema", "json_object", "none")
_JSON_OBJECT = EncodedJson({"type": "json_object"})
_BACKENDS = ("openai", "endpoint")
_TEXTS = ("model", "name", "base_url")  # not parsed as YAML: a model may be named 4 or on


@dataclass(frozen=True, slots=True)
class LanguageModel:
    """A language model behind an endpoint. `label` is its name in tables and files."""

    endpoint: EndpointConfig
    sampling: EndpointSampling
    price: TokenPrice | None = None
    structured: Structured = "json_schema"

    @property
    def label(self) -> str:
        return f"openai:{self.sampling.model}"

    def payload(self, messages: Sequence[Mapping[str, Any]], reply: EncodedJson | None = None) -> dict[str, Any]:
        """The JSON body of a request; `reply`: the form of the requested reply, from `json_schema`."""
        body = self.sampling.payload(messages)
        if reply is not None and self.structured != "none":
            body["response_format"] = reply if self.structured == "json_schema" else _JSON_OBJECT
        return body

    def describe(self) -> dict[str, Any]:
        """Everything that can change a reply, as JSON values. Not the address: a server may move to another port."""
        sampling = self.sampling
        return {
            "model": sampling.model, "temperature": sampling.temperature, "seed": sampling.seed,
            "max_tokens": sampling.max_tokens, "extra": dict(sampling.extra), "structured": self.structured,
        }  # fmt: skip


def json_schema(name: str, schema: Mapping[str, Any]) -> EncodedJson:
    """The form of a reply with this JSON schema."""
    return EncodedJson({"type": "json_schema", "json_schema": {"name": name, "strict": True, "schema": dict(schema)}})


def read_model(
    spec: str | Path | Mapping[str, Any],
    *,
    owner: str = "--llm",
    max_tokens: int = 1024,
    seed: int = 0,
    also: Sequence[str] = (),
) -> LanguageModel:
    """The model specified by `spec`. `owner`: the setting's name in messages; `max_tokens`, `seed`: defaults; `also`:
    what the caller accepts besides models, for the message about a misspelling.

    Raises Ad2Error for an unknown form, key or value, a missing model name, a missing API key.
    """
    values = _values(spec, owner, also)
    if "api_key" in values:
        raise Ad2Error(f"{owner}: no key belongs here; set OPENAI_API_KEY, or name another variable with api_key_env")
    check_keys(values, (*ENDPOINT_KEYS, *PRICE_KEYS, "structured"), owner)
    settings = CheckedSettings(values, owner)
    if not settings.text("model"):
        raise Ad2Error(f"{owner}: which model? e.g. openai:model=NAME,base_url=http://host:port/v1")
    structured = one_of(values.get("structured", "json_schema"), STRUCTURED, f"value of {owner} structured")
    return LanguageModel(
        endpoint(settings), sampling(settings, max_tokens=max_tokens, seed=seed), price(settings), structured
    )


def _values(spec: str | Path | Mapping[str, Any], owner: str, also: Sequence[str]) -> dict[str, Any]:
    if isinstance(spec, Mapping):
        return _without_backend(spec, owner)
    text = str(spec).strip()
    name, colon, rest = text.partition(":")
    if colon and name == "openai":
        return pairs(rest, owner, first="model")
    if colon and name == "endpoint":
        return pairs(_with_keys(rest), owner, first="model")
    path = Path(text).expanduser()
    if path.suffix in (".yaml", ".yml") or path.is_file():
        return _without_backend(yaml_mapping(path, f"the file of {owner}", "the key 'backend' (openai)"), str(path))
    one_of(name, (*also, *_BACKENDS), f"{owner} (and no YAML file)")
    raise Ad2Error(f"{owner}: which model? e.g. openai:model=NAME,base_url=http://host:port/v1")


def _without_backend(data: Mapping[str, Any], where: str) -> dict[str, Any]:
    one_of(data.get("backend", "openai"), _BACKENDS, f"backend of {where}")
    return {str(k): v for k, v in data.items() if k != "backend"}


def _with_keys(text: str) -> str:
    """MODEL@URL,key=value or URL,model=MODEL,key=value rewritten as key=value pairs."""
    first, comma, rest = text.partition(",")
    if first.startswith(("http://", "https://")):
        return f"base_url={first}{comma}{rest}"
    model, at, address = first.partition("@")
    if not at or "=" in model:
        return text
    return f"model={model},base_url={address}{comma}{rest}"


def pairs(text: str, owner: str, *, first: str = "") -> dict[str, Any]:
    """`a=1,b=x` -> {"a": 1, "b": "x"}. The first value may omit its key, which is then `first`."""
    found: dict[str, Any] = {}
    for part in text.split(",") if text.strip() else ():
        key, equals, value = (s.strip() for s in part.partition("="))
        if not equals:
            if not first or found:
                raise Ad2Error(f"{owner}: expected KEY=VALUE, found '{part}'")
            key, value = first, part.strip()
        found[key] = _value(key, value)
    return found


def _value(key: str, text: str) -> Any:
    if key in _TEXTS:
        return text
    try:
        return user_yaml.parse(text)
    except yaml.YAMLError:
        return text


def yaml_mapping(path: Path, what: str, keys: str) -> dict[str, Any]:
    """The mapping in a YAML file. `what` (the kind of file) and `keys` (the expected ones) are used in messages."""
    try:
        data = user_yaml.parse(user_yaml.read_text(path))
    except OSError as exc:
        raise Ad2Error(f"cannot read {what} {path}: {exc}") from exc
    except yaml.YAMLError as exc:
        raise Ad2Error(f"{path} is not YAML: {yaml_fault(exc)}") from exc
    if not isinstance(data, dict):
        raise Ad2Error(f"{path}: expected a mapping with {keys}")
    return data
