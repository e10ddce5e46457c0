"""Which prompts a judge uses: the packaged ones, changed by what the user names."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from lmms_eval_ad2.errors import Ad2Error
from lmms_eval_ad2.judge import official
from lmms_eval_ad2.judge.rubrics import Rubric, from_yaml, packaged
from lmms_eval_ad2.judge.verdict import REPLY_FORMS
from lmms_eval_ad2.llm.names import one_of


def load(
    *,
    override: Path | None = None,
    official_dir: Path | None = None,
    system_files: Mapping[str, str | Path] | None = None,
    reply: Mapping[str, str] | None = None,
) -> dict[str, Rubric]:
    """The packaged rubrics, changed in this order by a YAML file, official prompt files, system texts, reply forms.

    Raises Ad2Error or DataError for a file that is absent or malformed, or an unknown rubric.
    """
    rubrics = dict(packaged())
    if override is not None:
        try:
            text = override.read_text("utf-8")
        except (OSError, UnicodeDecodeError) as exc:
            raise Ad2Error(f"cannot read the rubric file {override}: {exc}") from exc
        rubrics |= from_yaml(text, override, rubrics)
    if official_dir is not None:
        rubrics |= official.few_shots(official_dir, rubrics)
    rubrics |= official.system_texts(system_files or {}, rubrics)
    for name, form in (reply or {}).items():
        known = rubrics[one_of(name, rubrics, "rubric")]
        rubrics[name] = official.changed(known, reply=one_of(form, REPLY_FORMS, "reply form"))
    return rubrics
