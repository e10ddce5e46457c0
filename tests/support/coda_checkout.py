"""A checkout with the layout and the Python structure of CODA-LM's repository, with texts of our own."""

from __future__ import annotations

import json
from pathlib import Path

SYSTEMS = {
    "stage1": 'Stage one: compare descriptions.\n End with "[[rating]]". ',
    "stage2": "Stage two: compare advice. [[rating]]",
    "stage3": "Stage three: compare objects. [[rating]]",
}
TEMPLATE = "<ref>\n{}\n</ref>\n\n<pred {{literal}}>\n{}\n</pred>"
QUESTIONS = {
    "general": "Describe {everything} here.", "suggestion": "How to go on?", "region": "What is in the red rectangle?",
}  # fmt: skip
_SHOT = """
        with open(os.path.join(few_shot, "{name}.json")) as f:
            {name}_data = json.load(f)
"""
_TURNS = """
        ret.append({{"role": "user", "content": template.format({name}_data["reference"], {name}_data["prediction"])}})
        ret.append({{"role": "assistant", "content": {name}_data["response"]}})
"""
_BATCHER = """
class Batcher:
    def __init__(self, key, model_name="m", temperature=0, workers=2):
        self.temperature = temperature
        {system}
{create}
    def send(self, messages):
        return self.client.chat.completions.create(
            model=self.model_name, messages=messages, temperature=self.temperature)
"""
_CREATE = """
    def create_messages(self, message):
        ret = []
        ret.append({{"role": "system", "content": self.system_prompt}})
{shots}
        template = {template!r}
{turns}
        ret.append({{"role": "user", "content": template.format(message["reference"], message["prediction"])}})
        return ret
"""
_HEAD = "import os, json\nraise SystemExit('this file must not be executed')\n"


def stage(number: int) -> str:
    """The source of a stage: the third has no examples and its prompt is in a class of its own."""
    system = f"self.system_prompt = {SYSTEMS[f'stage{number}']!r}"
    if number == 3:
        create = _CREATE.format(shots="", turns="", template=TEMPLATE)
        evaluator = f"\nclass Region:\n    def __init__(self):\n        {system}\n{create}"
        return _HEAD + evaluator + _BATCHER.format(system="pass", create="")
    names = ("high", "low")
    folder = "scene_few_shot" if number == 1 else "suggestion_few_shot"
    shots = f'        few_shot = os.path.join(HERE, "{folder}")\n' + "".join(_SHOT.format(name=n) for n in names)
    create = _CREATE.format(shots=shots, turns="".join(_TURNS.format(name=n) for n in names), template=TEMPLATE)
    return _HEAD + _BATCHER.format(system=system, create=create)


def converter() -> str:
    """The source of the converter: one list of rows per task, each written to its file."""
    rows, files = "", ""
    names = ("general_perception", "driving_suggestion", "region_perception")
    for number, (task, name) in enumerate(zip(QUESTIONS, names, strict=True), 1):
        rows += f"    stage{number}_row = dict(question_id=1, image='x', question={QUESTIONS[task]!r})\n"
        rows += f"    stage{number}_all.append(stage{number}_row)\n"
        files += f"with open(os.path.join(root, '{name}.jsonl'), 'w') as file:\n"
        files += f"    for entry in stage{number}_all:\n        file.write(json.dumps(entry))\n"
    return f"{_HEAD}for name in names:\n{rows}{files}"


def write_checkout(root: Path) -> Path:
    """Write the checkout and return its root."""
    evaluation = root / "evaluation"
    for folder in ("scene_few_shot", "suggestion_few_shot"):
        (evaluation / folder).mkdir(parents=True)
        for name, mark in (("high", 9), ("low", 2)):
            shot = {
                "reference": f" {folder} ref ", "prediction": f"{name} pred", "response": f"So.\nRating: [[{mark}]]\n"
            }  # fmt: skip
            (evaluation / folder / f"{name}.json").write_text(json.dumps(shot), "utf-8")
    for number in (1, 2, 3):
        (evaluation / f"stage{number}_eval_batch.py").write_text(stage(number), "utf-8")
    (root / "convert2vqa.py").write_text(converter(), "utf-8")
    return root
