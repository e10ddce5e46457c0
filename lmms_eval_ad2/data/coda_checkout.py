"""Texts of a checkout of CODA-LM (DLUT-LYZ/CODA-LM): its judge's prompts, and the questions of its three tasks.

Its Python files are parsed (`ast`), never imported or executed. A file that builds requests in another way than the
published one is refused: with it, the requests here would not be the official ones. Read from the checkout:

    evaluation/stage{1,2,3}_eval_batch.py     system prompt, template, order of the messages, request parameters
    evaluation/*_few_shot/{high,low}.json     the examples that these files name: reference, prediction, response
    convert2vqa.py                            the questions
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from string import Formatter
from typing import Any

from lmms_eval_ad2.core.errors import Ad2Error, DataError
from lmms_eval_ad2.core.numbers import is_number
from lmms_eval_ad2.storage.untrusted_json import parse, read_bytes

STAGES = {
    "coda_general": "stage1_eval_batch.py", "coda_suggestion": "stage2_eval_batch.py",
    "coda_region": "stage3_eval_batch.py",
}  # fmt: skip
CONVERTER = "convert2vqa.py"
QUESTIONS = {
    "general": "general_perception.jsonl", "suggestion": "driving_suggestion.jsonl",
    "region": "region_perception.jsonl",
}  # fmt: skip
SHOT_KEYS = ("reference", "prediction", "response")
_LARGEST = 1 << 20  # bytes of one file
_HINT = "is this a checkout of DLUT-LYZ/CODA-LM?"


@dataclass(frozen=True, slots=True)
class CodaShot:
    """One example of the judge's prompt."""

    reference: str
    prediction: str
    response: str


@dataclass(frozen=True, slots=True)
class CodaJudgePrompt:
    """How the official script builds a request: system prompt, examples, and the three literal parts of the template.

    The message of an item or example is `template[0] + reference + template[1] + prediction + template[2]`.
    """

    system: str
    shots: tuple[CodaShot, ...]
    template: tuple[str, str, str]
    temperature: float

    def opening(self) -> list[dict[str, str]]:
        """The messages before the item."""
        found = [{"role": "system", "content": self.system}]
        for shot in self.shots:
            found.append(self.message(shot.reference, shot.prediction))
            found.append({"role": "assistant", "content": shot.response})
        return found

    def message(self, reference: str, prediction: str) -> dict[str, str]:
        """The message that shows a reference and a prediction, unchanged."""
        before, between, after = self.template
        return {"role": "user", "content": f"{before}{reference}{between}{prediction}{after}"}


def evaluation_folder(checkout: Path) -> Path:
    """The folder `evaluation` of a checkout, which may itself be given. Raises Ad2Error for a path without a folder."""
    if not checkout.is_dir():
        raise Ad2Error(f"official_dir {checkout} is not a folder: name a checkout of CODA-LM, or its folder evaluation")
    inner = checkout / "evaluation"
    return inner if inner.is_dir() else checkout


def judge_prompt(checkout: Path, rubric: str) -> CodaJudgePrompt:
    """The official prompt of a rubric of STAGES. Raises Ad2Error or DataError for a missing or different file."""
    folder = evaluation_folder(checkout)
    file = folder / STAGES[rubric]
    module = _module(file)
    method = _one([n for n in ast.walk(module) if _is_function(n, "create_messages")], file, "one create_messages")
    owner = _one([n for n in _classes(module) if method in n.body], file, "create_messages as a method")
    system = _one(_constants(owner, "system_prompt"), file, "one text assigned to self.system_prompt")
    template = _one(_constants(method, "template"), file, "one text assigned to template")
    shots = tuple(read_shot(folder / name) for name in _shot_files(method, file))
    return CodaJudgePrompt(system, shots, _parts(template, file), _temperature(module, file))


def read_shot(path: Path) -> CodaShot:
    """An example file: a JSON object with the texts `reference`, `prediction` and `response`, which are not changed."""
    try:
        data = parse(read_bytes(path, _LARGEST))
    except OSError as exc:
        raise Ad2Error(f"cannot read {path}: {exc}") from exc
    except ValueError as exc:
        raise Ad2Error(f"{path} is not JSON: {exc}") from exc
    data = data[0] if isinstance(data, list) and len(data) == 1 else data
    if not isinstance(data, dict):
        keys = ", ".join(SHOT_KEYS)
        raise DataError(path, None, "(file)", f"a JSON object with the keys {keys}", type(data).__name__)
    for key in SHOT_KEYS:
        if not isinstance(data.get(key), str) or not data[key].strip():
            raise DataError(path, None, key, "a text", data.get(key), _HINT)
    return CodaShot(*(data[key] for key in SHOT_KEYS))


def official_questions(checkout: Path) -> dict[str, str]:
    """The question of each task of QUESTIONS. Raises Ad2Error or DataError for a missing or different file."""
    file = checkout / CONVERTER
    if not checkout.is_dir():
        raise Ad2Error(f"{checkout} is not a folder: name a checkout of CODA-LM, with {CONVERTER}")
    module = _module(file)
    return {task: _question(module, name, file) for task, name in QUESTIONS.items()}


def _question(module: ast.Module, name: str, file: Path) -> str:
    """The text in `rows.append(row)` with `row = dict(..., question=TEXT)`, for the rows that are written to `name`."""
    writing = [n for n in ast.walk(module) if isinstance(n, ast.With) and name in _texts(n)]
    lists = {n.iter.id for w in writing for n in ast.walk(w) if isinstance(n, ast.For) and isinstance(n.iter, ast.Name)}
    rows = {
        argument.id
        for call in ast.walk(module)
        if isinstance(call, ast.Call) and _name(_owner(call.func, "append")) in lists
        for argument in call.args
        if isinstance(argument, ast.Name)
    }
    found = [
        text
        for n in ast.walk(module)
        if isinstance(n, ast.Assign) and _name(n.targets[0]) in rows and isinstance(n.value, ast.Call)
        for keyword in n.value.keywords
        if keyword.arg == "question" and (text := _text(keyword.value)) is not None
    ]
    return _one(found, file, f"one text as the question of the rows of {name}")


def _module(path: Path) -> ast.Module:
    try:
        return ast.parse(read_bytes(path, _LARGEST))
    except OSError as exc:
        raise Ad2Error(f"cannot read {path}: {exc.strerror or exc}; {_HINT}") from exc
    except (SyntaxError, ValueError, RecursionError, MemoryError) as exc:
        raise Ad2Error(f"{path} is not Python: {exc}; {_HINT}") from exc


def _parts(template: str, file: Path) -> tuple[str, str, str]:
    """The literal texts before, between and after the two `{}` of a template."""
    literals, places = [""], []
    try:
        for literal, *place in Formatter().parse(template):
            literals[-1] += literal  # an escaped brace ends a literal as well
            if place[0] is not None:
                places.append(tuple(place))
                literals.append("")
    except ValueError as exc:
        raise DataError(file, None, "template", "a text with two {}", template, str(exc)) from exc
    if places != [("", "", None)] * 2:
        raise DataError(file, None, "template", "a text with two {}", template, _HINT)
    return literals[0], literals[1], literals[2]


def _shot_files(method: ast.FunctionDef, file: Path) -> list[Path]:
    """The example files in the order of the messages, after a check that the messages are the published ones.

    Published: system; for each example user and assistant; user with the item.
    """
    item = method.args.args[-1].arg if method.args.args else "?"
    loaded = dict(_loaded_files(method))
    nodes = sorted(ast.walk(method), key=lambda n: (getattr(n, "lineno", 0), getattr(n, "col_offset", 0)))
    found = [_message(n) for n in nodes if isinstance(n, ast.Call) and _owner(n.func, "append")]
    shown = [variable for role, variable in found if role == "assistant"]
    expected = [("system", "system_prompt"), *((r, v) for v in shown for r in ("user", "assistant")), ("user", item)]
    folders = sorted({text for text in _texts(method) if text.endswith("_few_shot") and Path(text).name == text})
    good = found == expected and set(shown) <= set(loaded) and len(folders) == (1 if shown else 0)
    if not good:
        roles = " ".join(f"{role}:{variable}" for role, variable in found)
        wanted = "messages system, (user, assistant) of each example, user, each from the template"
        raise DataError(file, method.lineno, "create_messages", wanted, roles, _HINT)
    return [Path(folders[0], loaded[variable]) for variable in shown]


def _message(call: ast.Call) -> tuple[str, str]:
    """Role and source of `append({"role": ROLE, "content": ...})`: "system_prompt", or the variable that is shown."""
    made = call.args[0] if len(call.args) == 1 else None
    if not isinstance(made, ast.Dict) or [_text(k) for k in made.keys] != ["role", "content"]:
        return "?", "?"
    role, content = _text(made.values[0]), made.values[1]
    if role == "system" and _owner(content, "system_prompt"):
        return role, "system_prompt"
    if role == "assistant":
        return role, _field(content, "response")
    if role == "user" and isinstance(content, ast.Call):
        of = {_field(a, key) for a, key in zip(content.args, ("reference", "prediction"), strict=False)}
        if _name(_owner(content.func, "format")) == "template" and len(content.args) == 2 and len(of) == 1:
            return role, of.pop()
    return role or "?", "?"


def _loaded_files(method: ast.FunctionDef) -> Iterator[tuple[str, str]]:
    """(variable, file name) of each `with open(... "NAME.json") as f: variable = ...`."""
    for block in ast.walk(method):
        if isinstance(block, ast.With) and len(block.body) == 1 and isinstance(block.body[0], ast.Assign):
            names = [t for t in _texts(block.items[0].context_expr) if t.endswith(".json") and Path(t).name == t]
            if len(names) == 1:
                yield _name(block.body[0].targets[0]), names[0]


def _temperature(module: ast.Module, file: Path) -> float:
    """The temperature of requests, which have no other parameter besides model and messages."""
    calls = [n for n in ast.walk(module) if isinstance(n, ast.Call) and _owner(n.func, "create")]
    call = _one(calls, file, "one call of completions.create")
    names = [str(keyword.arg) for keyword in call.keywords]
    if sorted(names) != ["messages", "model", "temperature"] or call.args:
        raise DataError(file, call.lineno, "create", "the parameters model, messages, temperature", names, _HINT)
    owner = _one([n for n in _classes(module) if call in ast.walk(n)], file, "completions.create in one class")
    start = _one([n for n in owner.body if _is_function(n, "__init__")], file, f"one __init__ of {owner.name}").args
    defaults = dict(zip([a.arg for a in start.args][::-1], start.defaults[::-1], strict=False))
    default = defaults.get("temperature")
    made = [n for n in ast.walk(module) if isinstance(n, ast.Call) and _name(n.func) == owner.name]
    given = [keyword.arg for n in made for keyword in n.keywords if keyword.arg == "temperature"]
    if given or not isinstance(default, ast.Constant) or not is_number(default.value):
        raise DataError(file, None, "temperature", f"a number as the default of {owner.name}", None, _HINT)
    return default.value


# --- parts of a syntax tree ---


def _classes(tree: ast.AST) -> list[ast.ClassDef]:
    return [n for n in ast.walk(tree) if isinstance(n, ast.ClassDef)]


def _constants(tree: ast.AST, name: str) -> list[str]:
    """Texts that are assigned to the variable or attribute `name` in `tree`."""
    return [
        text
        for n in ast.walk(tree)
        if isinstance(n, ast.Assign) and (text := _text(n.value)) is not None
        for target in n.targets
        if _name(target) == name or _owner(target, name)
    ]


def _texts(tree: ast.AST) -> list[str]:
    return [text for n in ast.walk(tree) if (text := _text(n)) is not None]


def _field(node: ast.AST, key: str) -> str:
    """The variable in `variable[key]`, else "?"."""
    return _name(node.value) if isinstance(node, ast.Subscript) and _text(node.slice) == key else "?"


def _is_function(node: ast.AST, name: str) -> bool:
    return isinstance(node, ast.FunctionDef) and node.name == name


def _owner(node: ast.AST, attribute: str) -> ast.expr | None:
    """The expression before `.attribute`, if that is what `node` is."""
    return node.value if isinstance(node, ast.Attribute) and node.attr == attribute else None


def _text(node: ast.AST | None) -> str | None:
    """The value of a literal text."""
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else None


def _name(node: ast.AST | None) -> str:
    return node.id if isinstance(node, ast.Name) else "?"


def _one(found: list[Any], file: Path, expected: str) -> Any:
    if len(found) != 1:
        raise DataError(file, None, "(source)", expected, f"{len(found)}", _HINT)
    return found[0]
