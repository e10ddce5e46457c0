"""Options of the commands that use a judge."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING

from lmms_eval_ad2.core.options import option
from lmms_eval_ad2.core.printed import show
from lmms_eval_ad2.judge.spec import IMAGES_VARIABLE, REPEATS_VARIABLE, VARIABLE
from lmms_eval_ad2.storage.redaction import redacted
from lmms_eval_ad2.storage.saved_samples import MOST_JUDGEMENTS

if TYPE_CHECKING:
    from lmms_eval_ad2.judge.base import Judge


@dataclass(frozen=True, kw_only=True)
class JudgeOptions:
    """The judge, as for `make_judge(None)`: it reads the environment, which lmms-eval's processes inherit."""

    judge: str | None = option(
        "lexical | embedding:NAME | evaluate:SCRIPT | openai:model=…,base_url=… | a YAML file (default: AD2_JUDGE)",
        default=None,
        metavar="SPEC",
    )
    judge_repeats: int | None = option(
        "independent replies of an LLM judge per text; mean and spread are reported (default 1)",
        default=None,
        metavar="N",
        least=1,
        most=MOST_JUDGEMENTS,
        expert=True,
    )

    judge_images: bool = option(
        "the LLM judge sees the images of each record, with its mark drawn; needs a model that takes images",
        default=False,
        expert=True,
    )

    def set_environment(self) -> None:
        """Set the variables of the options that are given."""
        images = "1" if self.judge_images else None
        given = {VARIABLE: self.judge, REPEATS_VARIABLE: self.judge_repeats, IMAGES_VARIABLE: images}
        os.environ.update({name: str(value) for name, value in given.items() if value is not None})


def print_address(judge: Judge) -> None:
    """Print on stderr where an LLM judge sends its requests: without base_url that is another company's server."""
    if address := judge.describe().get("base_url"):
        show(f"ad2: judge {judge.label} at {redacted(str(address))}", file=sys.stderr)
