"""`ad2 serve`: serve a model, and the driver built on it, at an OpenAI-compatible endpoint."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from closedloop_plugin.runner.options import DecisionOptions, DriverOptions
from lmms_eval_ad2.core.errors import Ad2Error
from lmms_eval_ad2.core.options import add_command, option

if TYPE_CHECKING:
    from closedloop_plugin.core.profiles import Profile
    from closedloop_plugin.interfaces.serve.http_api import ChatHttpApi

EXAMPLES = """examples:
  ad2 serve --model lmms:qwen2_5_vl,pretrained=Qwen/Qwen2.5-VL-7B-Instruct,batch_size=8
  ad2 serve --model endpoint:qwen@http://gpu7:8000/v1 --interpreter endpoint:llama@http://gpu8:8000/v1 --mode dcs
  ad2 serve --model straight --port 8101               test of the connection, without a model
clients (docs/serve.md):
  ad2 drive run --agent endpoint:qwen2_5_vl@http://127.0.0.1:8100/v1 ...      the model alone
  model "ad2-driver"                    the complete driver: closedloop_plugin/carla/leaderboard_agent/agent.py

exit code: 0 ended by Ctrl-C or SIGTERM, 2 invalid arguments"""


@dataclass(frozen=True, kw_only=True)
class AddressOptions:
    host: str = option("address to listen on (default 127.0.0.1: this machine only)", default="127.0.0.1")
    port: int = option(
        "port to listen on; 0 selects a free one (default 8100)", default=8100, least=0, most=65_535, metavar="P"
    )
    allow_host: str = option(
        "further names, separated by commas, that clients may use for this server (default: its address and names)",
        default="", metavar="NAMES", expert=True,
    )  # fmt: skip
    api_key_env: str | None = option(
        "environment variable with the key that clients must send", default=None, metavar="NAME", expert=True
    )


@dataclass(frozen=True, kw_only=True)
class LoadOptions:
    batch: int = option(
        "maximum requests per batch (default 8)", default=8, metavar="N", least=1, most=4096, expert=True
    )
    window_ms: float = option(
        "time to wait for a batch to fill (default 20)", default=20.0, metavar="MS", least=0, most=60_000, expert=True
    )
    queue: int = option(
        "maximum waiting requests (default 256)", default=256, metavar="N", least=1, most=65_536, expert=True
    )
    max_body_mb: float = option(
        "maximum size of a request (default 64)", default=64.0, metavar="MB", least=0.001, most=4096, expert=True
    )


@dataclass(frozen=True, kw_only=True)
class ServedDriverOptions(DriverOptions, DecisionOptions):
    """The driver behind the name ad2-driver. It has no `latency`: time passes at the client."""

    seed: int = option(
        "seed of sampled replies and of the agent random (default 0)", default=0, metavar="S", expert=True
    )


@dataclass(frozen=True, kw_only=True)
class ServeOptions(AddressOptions, LoadOptions, ServedDriverOptions):
    """`ad2 serve`. The agent is the model."""

    agent: str = option(
        "lmms:NAME,..., endpoint:MODEL@URL, still, straight or random", flag="--model", dest="model", metavar="SPEC"
    )


GROUPS = {
    "address": (AddressOptions,),
    "load": (LoadOptions,),
    "ad2-driver (as in ad2 drive run)": (DriverOptions, DecisionOptions, ServedDriverOptions),
}


def register(subparsers: Any) -> None:
    add_command(
        subparsers,
        "serve",
        run,
        ServeOptions,
        GROUPS,
        help="serve a model, or a complete driver, at an OpenAI-compatible endpoint",
        description="Answer chat completions with an lmms-eval model, in batches. Under the name ad2-driver the same\n"
        "server is a complete driver: pictures and speed in, throttle, brake and steering out.",
        epilog=EXAMPLES,
    )


def run(options: ServeOptions) -> int:
    from closedloop_plugin.core.profiles import profile
    from closedloop_plugin.interfaces.serve.batching import RequestBatcher
    from closedloop_plugin.interfaces.serve.http_api import ChatHttpApi, RequestLimits
    from closedloop_plugin.interfaces.serve.server import serve
    from lmms_eval_ad2.core.served_connections import allowed_names, is_loopback
    from lmms_eval_ad2.storage.redaction import redacted

    options = replace(options, agent=options.agent.strip())
    rules = profile(options.profile)
    _check(options, rules)
    key = _key(options.api_key_env)
    if not key and not is_loopback(options.host):
        print(
            f"warning: on {options.host} anyone can use this model; --config api_key_env=NAME requires a key",
            file=sys.stderr,
        )
    api = ChatHttpApi(
        RequestBatcher(batch=options.batch, window_s=options.window_ms / 1000),
        RequestLimits(
            queue=options.queue,
            body_bytes=int(options.max_body_mb * 2**20),
            parsed=max(RequestLimits.parsed, 2 * options.batch),
        ),
        key=key,
        allowed_hosts=allowed_names(options.allow_host),
        model=redacted(options.agent),
    )
    serve(api, options.host, options.port, lambda: _load(options, rules, api))
    return 0


def _check(options: ServeOptions, rules: Profile) -> None:
    from closedloop_plugin.driver.agents.make import BUILT_IN, SPEAKING, make_agent
    from closedloop_plugin.runner.driver import check_driver
    from closedloop_plugin.runner.prepare import check_decision_hz

    if options.agent in (*BUILT_IN, SPEAKING) and make_agent(options.agent).privileged:
        free = [name for name in BUILT_IN if not make_agent(name).privileged]
        raise Ad2Error(
            f"--model {options.agent} is privileged (it reads the simulation's state); an endpoint receives "
            f"only pictures; use {', '.join(free)}, endpoint:... or lmms:..."
        )
    try:
        check_driver(options)
    except Ad2Error as exc:
        raise Ad2Error(str(exc).replace("--agent", "--model")) from None
    check_decision_hz(options.decision_hz, rules)


def _key(variable: str | None) -> str:
    key = os.environ.get(variable, "").strip() if variable else ""
    if variable and not key:
        raise Ad2Error(f"the environment variable {variable} (--config api_key_env) is not set")
    return key


def _load(options: ServeOptions, rules: Profile, api: ChatHttpApi) -> None:
    from closedloop_plugin.driver.agents.history import AgentWithHistory
    from closedloop_plugin.driver.agents.model_agent import ModelAgent
    from closedloop_plugin.interfaces.serve.services import DriverService, ModelService
    from closedloop_plugin.runner.driver import driver_of

    made = driver_of(options, rules, options.policy)
    driver = DriverService(
        agent=made.agent,
        interpreter=made.interpreter,
        profile=rules,
        policy=options.policy,
        decision_hz=options.decision_hz,
        seed=options.seed,
    )
    alone = made.agent.agent if isinstance(made.agent, AgentWithHistory) else made.agent
    models = [ModelService(alone.backend)] if isinstance(alone, ModelAgent) else []
    api.open([*models, driver], driver, models[0].name if models else made.agent.name)
