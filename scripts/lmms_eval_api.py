"""Record the parts of lmms-eval on which this package depends beyond its documented interfaces.

    python scripts/lmms_eval_api.py       # writes tests/contracts/lmms_eval_api.json from the installed lmms-eval

`make quick` compares the installed lmms-eval with the recording (tests/contracts/test_lmms_eval_api.py) and names each
part that changed. Before a newer version is allowed in setup.cfg, compare each of these with our code that uses it,
then record again. A fingerprint is a hash of the syntax tree without docstrings, equal for all versions of Python.
"""

from __future__ import annotations

import ast
import functools
import hashlib
import importlib.util
import json
from importlib import metadata
from pathlib import Path
from typing import Any

RECORDING = Path(__file__).resolve().parent.parent / "tests" / "contracts" / "lmms_eval_api.json"
_HARNESS = "lmms_eval_ad2/harness"
# Function or class of lmms-eval -> our file that wraps it, calls it or follows its behaviour.
USED = {
    "lmms_eval.__main__.cli_evaluate": "lmms_eval_ad2/cli/lmms.py",
    "lmms_eval.__main__.cli_evaluate_single": "lmms_eval_ad2/cli/lmms.py",
    "lmms_eval.__main__.parse_eval_args": f"{_HARNESS}/host_options.py",
    "lmms_eval.api.instance.Instance": f"{_HARNESS}/rounds.py",
    "lmms_eval.api.instance.unwrap_generation_output": f"{_HARNESS}/journal.py",
    "lmms_eval.api.model.lmms": f"{_HARNESS}/models/baselines.py",
    "lmms_eval.api.task.ConfigurableMessagesTask": f"{_HARNESS}/rounds.py",
    "lmms_eval.api.task.ConfigurableTask.apply_filters": f"{_HARNESS}/task_data.py",
    "lmms_eval.api.task.ConfigurableTask.construct_requests": f"{_HARNESS}/rounds.py",
    "lmms_eval.api.task.ConfigurableTask.doc_to_text": f"{_HARNESS}/hooks.py",
    "lmms_eval.api.task.ConfigurableTask.download": f"{_HARNESS}/task_data.py",
    "lmms_eval.api.task.ConfigurableTask.eval_docs_no_media": f"{_HARNESS}/task_data.py",
    "lmms_eval.api.task.ConfigurableTask.process_results": f"{_HARNESS}/hooks.py",
    "lmms_eval.api.task.Task.build_all_requests": f"{_HARNESS}/judging.py",
    "lmms_eval.api.task.Task.eval_docs": f"{_HARNESS}/task_data.py",
    "lmms_eval.cli.dispatch.main": "lmms_eval_ad2/cli/lmms.py",
    "lmms_eval.entrypoints.job_scheduler.JobScheduler._parse_output_directory": f"{_HARNESS}/run.py",
    "lmms_eval.evaluator._run_generate_until_agentic": f"{_HARNESS}/rounds.py",
    "lmms_eval.evaluator.evaluate": f"{_HARNESS}/run.py",
    "lmms_eval.evaluator.simple_evaluate": f"{_HARNESS}/run.py",
    "lmms_eval.evaluator_utils.TaskOutput": f"{_HARNESS}/judging.py",
    "lmms_eval.evaluator_utils.get_subtask_list": f"{_HARNESS}/judging.py",
    "lmms_eval.evaluator_utils.get_task_list": f"{_HARNESS}/run.py",
    "lmms_eval.evaluator_utils.prepare_print_tasks": f"{_HARNESS}/judging.py",
    "lmms_eval.models._initialize_model_registry": f"{_HARNESS}/model_requirements.py",
    "lmms_eval.models.chat.async_openai.AsyncOpenAIChat": f"{_HARNESS}/batched_generation.py",
    "lmms_eval.models.chat.openai.OpenAICompatible": f"{_HARNESS}/wrapper_guard.py",
    "lmms_eval.models.chat.qwen2_5_vl.Qwen2_5_VL": f"{_HARNESS}/model_input.py",
    "lmms_eval.models.chat.qwen3_vl.Qwen3_VL": f"{_HARNESS}/model_input.py",
    "lmms_eval.models.get_model": "closedloop_plugin/driver/agents/lmms_model.py",
    "lmms_eval.models.model_utils.gen_metrics.log_metrics": f"{_HARNESS}/batched_generation.py",
    "lmms_eval.models.model_utils.media_encoder.encode_image_to_data_url": f"{_HARNESS}/models/swift.py",
    "lmms_eval.models.registry_v2.ModelManifest": f"{_HARNESS}/models/__init__.py",
    "lmms_eval.models.registry_v2.ModelRegistryV2": f"{_HARNESS}/model_requirements.py",
    "lmms_eval.models.simple.qwen2_5_vl.Qwen2_5_VL": f"{_HARNESS}/model_input.py",
    "lmms_eval.models.simple.qwen2_vl.Qwen2_VL": f"{_HARNESS}/model_input.py",
    "lmms_eval.models.simple.qwen3_vl.Qwen3_VL": f"{_HARNESS}/model_input.py",
    "lmms_eval.tasks.TaskManager.initialize_tasks": f"{_HARNESS}/plugin.py",
    "lmms_eval.tui.discovery.DiscoveryCache": f"{_HARNESS}/plugin.py",
    "lmms_eval.tui.discovery.discover_tasks": f"{_HARNESS}/plugin.py",
    "lmms_eval.utils.get_eval_banner": "lmms_eval_ad2/cli/lmms.py",
    "lmms_eval.utils.make_table": "lmms_eval_ad2/cli/lmms.py",
    "lmms_eval.utils.simple_parse_args_string": "closedloop_plugin/driver/agents/lmms_model.py",
}
MISSING = "missing"
_IGNORED = ("ctx", "kind", "type_comment")  # fields without meaning for the behaviour
_DEFINITION = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)


def main() -> int:
    version = metadata.version("lmms-eval")
    found = {name: fingerprint(name) for name in USED}
    if missing := [name for name, value in found.items() if value == MISSING]:
        raise SystemExit(f"lmms-eval {version} has no {', '.join(missing)}: change USED and the code that needs them")
    text = json.dumps({"version": version, "fingerprints": found}, indent=1)
    RECORDING.write_text(text + "\n", "utf-8")
    print(f"{RECORDING.name}: {len(found)} parts of lmms-eval {version}")
    return 0


def fingerprint(name: str, root: Path | None = None) -> str:
    """The fingerprint of `package.module.Class.method`; MISSING if it does not exist. `root`: of the package."""
    parts = name.split(".")[1:]
    folder = root or _package(name.partition(".")[0])
    for count in range(len(parts), -1, -1):
        path = folder.joinpath(*parts[:count])
        file = next((f for f in (path.with_suffix(".py"), path / "__init__.py") if f.is_file()), None)
        if file is not None:
            node = _definition(_tree(file), parts[count:])
            return hashlib.sha256(structure(node).encode()).hexdigest()[:16] if node else MISSING
    return MISSING


def structure(node: Any) -> str:
    """A text of the syntax tree, without positions, docstrings and the empty fields that only some Pythons have."""
    if isinstance(node, ast.AST):
        fields = dict(ast.iter_fields(node))
        if isinstance(node, _DEFINITION) and ast.get_docstring(node, clean=False) is not None:
            fields["body"] = node.body[1:]
        kept = {k: v for k, v in fields.items() if k not in _IGNORED and (isinstance(node, ast.Constant) or v)}
        return f"{type(node).__name__}({', '.join(f'{k}={structure(v)}' for k, v in kept.items())})"
    if isinstance(node, list):
        return f"[{', '.join(map(structure, node))}]"
    return repr(node)


@functools.cache
def _package(name: str) -> Path:
    """The folder of an installed package, which is not imported."""
    spec = importlib.util.find_spec(name)
    if spec is None or spec.origin is None:
        raise SystemExit(f"{name} is not installed")
    return Path(spec.origin).parent


@functools.cache
def _tree(file: Path) -> ast.Module:
    return ast.parse(file.read_text("utf-8"))


def _definition(tree: ast.AST, names: list[str]) -> ast.AST | None:
    for name in names:
        body = [node for node in getattr(tree, "body", ()) if isinstance(node, _DEFINITION) and node.name == name]
        if not body:
            return None
        tree = body[-1]
    return tree if names else None


if __name__ == "__main__":
    raise SystemExit(main())
