"""The table of driving replies in driving_replies.yaml."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
import yaml

from closedloop_plugin.driver.interpreters.parsing.instruction import (
    REASONS,
    DrivingInstruction,
    UnclearInstruction,
    parse_instruction,
)
from closedloop_plugin.driver.interpreters.parsing.lexicon import PACES, WAYS

TABLE: dict[str, list[list[str]]] = yaml.safe_load(Path(__file__).with_name("driving_replies.yaml").read_text("utf-8"))
CASES = [pytest.param(*row, id=f"{group}-{row[0][:40]!r}") for group, rows in TABLE.items() for row in rows]


def instruction(reading: str) -> DrivingInstruction:
    fields: dict[str, Any] = {}
    for word in reading.split():
        name, _, number = word.partition("=")
        if number:
            fields[name] = float(number)
        else:
            fields["pace" if word in PACES else "way" if word in WAYS else "force"] = word
    return DrivingInstruction(**fields)


@pytest.mark.parametrize(("text", "reading"), CASES)
def test_a_driving_reply_is_read_as_listed(text: str, reading: str) -> None:
    if reading.startswith("~"):
        with pytest.raises(UnclearInstruction) as caught:
            parse_instruction(text)
        assert str(caught.value).split()[0] in REASONS
        assert reading == "~" or str(caught.value) == reading[1:]
    else:
        assert asdict(parse_instruction(text)) == pytest.approx(asdict(instruction(reading)))


def test_the_table_is_large() -> None:
    assert len(CASES) >= 150
