"""Share of drafts that reviewers accepted unchanged."""

from __future__ import annotations

import json
from pathlib import Path

from support.annotate.folders import keep_all, make_project, scene_record, text_record

from lmms_eval_ad2.annotate.acceptance import acceptance
from lmms_eval_ad2.annotate.folder import open_folder
from lmms_eval_ad2.annotate.project import AnnotationProject


def test_shares_worked_by_hand(tmp_path: Path) -> None:
    """Regions: kept, kept but incomplete, changed, not finished, no draft: 1 of 3. The scene gained an object: 0 of 1;
    for another reviewer it is complete as it is: 1 of 2."""
    made = make_project(tmp_path, *(text_record(id=f"r{n}") for n in range(5)), scene_record())
    drafts = [{"id": f"r{n}", "model": "m", "answer": "A wolf."} for n in range(4)]
    drafts.append({"id": "a/general", "model": "m", "answer": "A street.", "objects": [["vehicle", "A bus."]]})
    (made.folder.path / "pre.jsonl").write_text("".join(json.dumps(row) + "\n" for row in drafts), "utf-8")
    project = AnnotationProject(open_folder(made.folder.path))
    keep_all(project, "anna", 0)
    keep_all(project, "anna", 1, complete=False)
    project.save_words("anna", 2, "answer", ("", "", "A dog."))
    project.save("anna", 2, "complete", True)
    project.save_verdict("anna", 3, "answer", "keep", ("", "", ""))
    keep_all(project, "anna", 4)
    project.add("anna", 5)
    (added,) = [line.base.key for line in project.review("anna", 5).lines if line.verdict == "add"]
    project.save_words("anna", 5, added, ("cone", "", "A cone."))
    for key in ("answer", "object.1"):
        project.save_verdict("anna", 5, key, "keep", ("", "", ""))
    project.save("anna", 5, "complete", True)
    keep_all(project, "bo", 5)
    assert [list(row.values()) for row in acceptance(project)] == [
        ["general", "m", 2, 1, 0.5], ["region", "m", 3, 1, 1 / 3],
    ]  # fmt: skip
