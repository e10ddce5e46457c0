"""Judge specifications: a short string, a YAML file or a mapping.

    lexical | fake | fake:score=7,fail_every=10 | embedding:NAME_OR_FOLDER | evaluate:SCRIPT.py,best=0,worst=1
    openai:model=gpt-4o-2024-11-20,base_url=http://host/v1,concurrency=64
    path/to/judge.yaml        the same keys, with `backend: openai` and so on

API keys are never part of a specification; they come from the environment only.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from lmms_eval_ad2.core.errors import Ad2Error
from lmms_eval_ad2.judge.base import HIGHEST, LOWEST, Judge
from lmms_eval_ad2.judge.verdict import WORDINGS, Wording
from lmms_eval_ad2.llm import settings as llm_settings
from lmms_eval_ad2.llm.model import pairs, yaml_mapping
from lmms_eval_ad2.llm.settings import CheckedSettings, check_keys, one_of
from lmms_eval_ad2.storage.saved_samples import MOST_JUDGEMENTS

BACKENDS = ("lexical", "embedding", "evaluate", "openai", "fake")
VARIABLE = "AD2_JUDGE"
REPEATS_VARIABLE = "AD2_JUDGE_REPEATS"
IMAGES_VARIABLE = "AD2_JUDGE_IMAGES"
_FIRST = {"embedding": "model", "evaluate": "script", "openai": "model"}  # key of a value given without one
_OPENAI = (
    *llm_settings.ENDPOINT_KEYS, *llm_settings.PRICE_KEYS, "rubrics", "official_dir", "wording", "system_files",
    "reply", "repeats", "images",
)  # fmt: skip
_PATHS = ("rubrics", "official_dir", "script")
# What the official requests have no choice of.
_FIXED_BY_OFFICIAL = ("temperature", "seed", "max_tokens", "max_tokens_key", "extra", "system_files", "reply")


def read(spec: str | Path | Mapping[str, Any] | None) -> dict[str, Any]:
    """Parse a specification into a mapping with `backend`; paths in a YAML file are relative to its folder.

    Raises Ad2Error if it is neither a backend nor a readable file.
    """
    if spec is None:
        return _with_environment(read(os.environ.get(VARIABLE) or "lexical"))
    if isinstance(spec, Mapping):
        return _checked(dict(spec), "the judge's settings")
    text = str(spec).strip()
    name, colon, rest = text.partition(":")
    if name in BACKENDS:
        options = pairs(rest, f"judge {name}", first=_FIRST.get(name, ""))
        return _checked({"backend": name, **options}, f"judge '{name}{colon}…'")
    path = Path(text).expanduser()
    if path.suffix in (".yaml", ".yml") or path.is_file():
        return _from_file(path)
    return {"backend": one_of(name, BACKENDS, "judge (and no YAML file)")}


def _with_environment(settings: dict[str, Any]) -> dict[str, Any]:
    """The settings with those of the environment. Raises Ad2Error for a backend that they do not fit."""
    if os.environ.get(IMAGES_VARIABLE) == "1":
        if settings["backend"] != "openai":
            raise Ad2Error(
                f"judge_images: the {settings['backend']} judge reads texts only; name a model that takes images "
                "(openai:MODEL)"
            )
        settings = {**settings, "images": True}
    repeats = os.environ.get(REPEATS_VARIABLE)
    if not repeats:
        return settings
    if not (repeats.isdecimal() and len(repeats) < 9 and 1 <= int(repeats) <= MOST_JUDGEMENTS):
        raise Ad2Error(f"{REPEATS_VARIABLE}={repeats[:40]}: expected a whole number from 1 to {MOST_JUDGEMENTS:,}")
    if settings["backend"] == "openai":
        return {**settings, "repeats": int(repeats)}
    if int(repeats) > 1:
        raise Ad2Error(
            f"judge_repeats {repeats}: the {settings['backend']} judge gives a text the same mark every time; "
            "repetitions need an LLM judge (openai:MODEL)"
        )
    return settings


def _from_file(path: Path) -> dict[str, Any]:
    data = yaml_mapping(path, "the judge's file", f"the key 'backend' ({', '.join(BACKENDS)})")
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
        raise Ad2Error(
            f"{where}: API keys are not allowed; set OPENAI_API_KEY, or name another variable with api_key_env"
        )
    backend = one_of(data.get("backend"), BACKENDS, "judge backend")
    check_keys((k for k in data if k != "backend"), KEYS[backend], where)
    return data


def build(settings: Mapping[str, Any], cache: Path | None) -> Judge:
    """Create the judge for settings returned by `read`."""
    checked = CheckedSettings(settings, "judge")
    match settings["backend"]:
        case "lexical":
            from lmms_eval_ad2.judge.backends.lexical import LexicalJudge

            return LexicalJudge()
        case "fake":
            from lmms_eval_ad2.testing.fake_judge import FakeJudge

            score = checked.number("score", None, low=LOWEST, high=HIGHEST)
            return FakeJudge(score=score, fail_every=checked.whole("fail_every", 0, low=0))
        case "embedding":
            from lmms_eval_ad2.judge.backends.embedding import EmbeddingJudge

            device, size = checked.text("device") or "cpu", checked.whole("batch_size", 64, low=1)
            return EmbeddingJudge(checked.text("model"), name=checked.text("name"), device=device, batch_size=size)
        case "evaluate":
            from lmms_eval_ad2.judge.backends.evaluate_metric import EvaluateJudge

            best, worst = (checked.number(key, low=-1e300, high=1e300, default=None) for key in ("best", "worst"))
            return EvaluateJudge(
                checked.text("script"),
                value=checked.text("value"),
                name=checked.text("name"),
                best=1.0 if best is None else best,
                worst=0.0 if worst is None else worst,
            )
    return _openai(checked, settings, cache)


def check(settings: Mapping[str, Any]) -> None:
    """Raise Ad2Error for settings that make no judge; models and metric scripts are located, not loaded."""
    match settings["backend"]:
        case "embedding":
            from lmms_eval_ad2.judge.backends import embedding

            embedding.check(CheckedSettings(settings, "judge").text("model"))
        case "evaluate":
            from lmms_eval_ad2.judge.backends import evaluate_metric

            evaluate_metric.locate(CheckedSettings(settings, "judge").text("script"))
        case _:
            build(settings, None)


def _openai(checked: CheckedSettings, settings: Mapping[str, Any], cache: Path | None) -> Judge:
    from lmms_eval_ad2.judge.backends.llm import LLMJudge
    from lmms_eval_ad2.judge.rubrics import load

    if not checked.text("model"):
        raise Ad2Error("judge openai: name a model, e.g. openai:model=gpt-4o-2024-11-20 (a dated name, not an alias)")
    endpoint, sampling = llm_settings.endpoint(checked), llm_settings.sampling(checked)
    rubrics = load(
        override=checked.path("rubrics"),
        official_dir=checked.path("official_dir"),
        wording=_wording(settings),
        system_files=checked.mapping("system_files"),
        reply=checked.mapping("reply"),
    )
    images = settings.get("images", False)
    if not isinstance(images, bool):
        raise Ad2Error(f"judge setting images: expected true or false, found {images!r}")
    return LLMJudge(
        endpoint, sampling, {name: rubric.seeing() for name, rubric in rubrics.items()} if images else rubrics,
        cache=cache, price=llm_settings.price(checked), images=images,
        repeats=checked.whole("repeats", 1, low=1, high=MOST_JUDGEMENTS),
    )  # fmt: skip


def _wording(settings: Mapping[str, Any]) -> Wording:
    """The wording of the CODA-LM rubrics. Raises Ad2Error for "official" beside settings that it excludes."""
    wording = one_of(settings.get("wording", "ours"), WORDINGS, "wording of the judge")
    if wording == "official":
        if not settings.get("official_dir"):
            raise Ad2Error("judge openai: wording=official needs official_dir=CHECKOUT, a checkout of DLUT-LYZ/CODA-LM")
        if settings.get("images"):
            raise Ad2Error("judge openai: wording=official sends the official requests, which have no image")
        if given := [key for key in _FIXED_BY_OFFICIAL if key in settings]:
            raise Ad2Error(
                f"judge openai: {given[0]} cannot be given with wording=official, which sends the official requests "
                "unchanged (model, messages, temperature)"
            )
    return wording


KEYS: dict[str, tuple[str, ...]] = {
    "lexical": (),
    "fake": ("score", "fail_every"),
    "embedding": ("model", "name", "device", "batch_size"),
    "evaluate": ("script", "value", "name", "best", "worst"),
    "openai": _OPENAI,
}
