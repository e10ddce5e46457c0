"""`ad2 serve`: a model, and the whole driver that it makes, behind an OpenAI-compatible endpoint."""

from __future__ import annotations

import argparse
import os
import sys
from typing import TYPE_CHECKING, Any

from closedloop_plugin.cli.drive.run import ArgumentFilter, register_driver
from lmms_eval_ad2.errors import Ad2Error
from lmms_eval_ad2.sigterm import ended_by_sigterm

if TYPE_CHECKING:
    from closedloop_plugin.core.profiles import Profile
    from closedloop_plugin.serve.server import LoadedServices

# Of `ad2 drive run`'s options: --model stands for the agent, and time passes where the car is.
ELSEWHERE = ("agent", "latency")
EXAMPLES = """examples:
  ad2 serve --model lmms:qwen2_5_vl,pretrained=Qwen/Qwen2.5-VL-7B-Instruct,batch_size=8
  ad2 serve --model endpoint:qwen@http://gpu7:8000/v1 --interpreter endpoint:llama@http://gpu8:8000/v1 --mode dcs
  ad2 serve --model straight --port 8101               the way through, without a model
then, from anywhere (docs/serve.md):
  ad2 drive run --agent endpoint:qwen2_5_vl@http://127.0.0.1:8100/v1 ...      the bare model
  model "ad2-driver"                    the whole driver: closedloop_plugin/carla/leaderboard_agent/agent.py

exit code: 0 ended by Ctrl-C or SIGTERM, 2 it cannot be served as asked"""


def register(subparsers: Any) -> None:
    p = subparsers.add_parser(
        "serve",
        help="a model, or a whole driver, behind an OpenAI-compatible endpoint",
        description="Answer chat completions with an lmms-eval model, in batches. Under the name ad2-driver the same\n"
        "server is a whole driver: pictures and speedometer in, throttle, brake and steering out.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    p.add_argument(
        "--model", required=True, metavar="SPEC", help="lmms:NAME,..., endpoint:MODEL@URL, still, straight or random"
    )
    where = p.add_argument_group("where")
    where.add_argument(
        "--host", default="127.0.0.1", help="address to listen on (default 127.0.0.1: this machine only)"
    )
    where.add_argument("--port", type=int, default=8100, help="default 8100; 0: any free one")
    where.add_argument("--api-key-env", metavar="NAME", help="environment variable with a key that clients must send")
    how = p.add_argument_group("how much at once")
    how.add_argument(
        "--batch", type=int, default=8, metavar="N", help="requests that the model gets at once (default 8)"
    )
    how.add_argument(
        "--window-ms", type=float, default=20.0, metavar="MS", help="how long a batch waits for company (default 20)"
    )
    how.add_argument("--queue", type=int, default=256, metavar="N", help="requests held at once (default 256)")
    how.add_argument("--max-body-mb", type=float, default=64.0, metavar="MB", help="of one request (default 64)")
    driver = p.add_argument_group("ad2-driver (as in ad2 drive run)")
    register_driver(ArgumentFilter(driver, ELSEWHERE))
    driver.add_argument("--seed", type=int, default=0, metavar="S", help="of sampled replies and of random (default 0)")
    p.set_defaults(func=run, frames=False, video=False)


def run(args: argparse.Namespace) -> int:
    from closedloop_plugin.core.profiles import profile
    from closedloop_plugin.harness.lmms_model import without_secrets
    from closedloop_plugin.serve.batching import RequestBatcher
    from closedloop_plugin.serve.http_api import ChatHttpApi, RequestLimits
    from closedloop_plugin.serve.server import is_loopback, serve

    args.agent = args.model.strip()
    _check(args)
    rules = profile(args.profile)
    if args.decision_hz is not None and not 0 < args.decision_hz <= rules.hz:
        raise Ad2Error(f"--decision-hz {args.decision_hz:g}: above 0, and at most the simulation's rate")
    key = _key(args.api_key_env)
    if not key and not is_loopback(args.host):
        print(f"warning: on {args.host} anybody can use this model; --api-key-env NAME asks for a key", file=sys.stderr)
    api = ChatHttpApi(
        RequestBatcher(args.batch, args.window_ms / 1000),
        RequestLimits(args.queue, int(args.max_body_mb * 2**20)),
        key,
        without_secrets(args.model),
    )
    with ended_by_sigterm():
        serve(api, args.host, args.port, lambda: _load(args, rules))
    return 0


def _check(args: argparse.Namespace) -> None:
    from closedloop_plugin.agents.make import BUILT_IN, make_agent
    from closedloop_plugin.cli.drive.prepared_run import check_driver

    bounds = (("batch", 1, 4096), ("window_ms", 0, 60_000), ("queue", 1, 65_536), ("max_body_mb", 0.001, 4096),
              ("port", 0, 65_535))  # fmt: skip
    for name, least, most in bounds:
        if not least <= getattr(args, name) <= most:
            raise Ad2Error(f"--{name.replace('_', '-')} {getattr(args, name)}: from {least} to {most}")
    if args.agent in BUILT_IN and make_agent(args.agent).privileged:
        free = [name for name in BUILT_IN if not make_agent(name).privileged]
        raise Ad2Error(
            f"--model {args.agent} sees everything (privileged), and through an endpoint nothing can be seen but "
            f"pictures; take {', '.join(free)}, endpoint:... or lmms:..."
        )
    try:
        check_driver(args)
    except Ad2Error as exc:
        raise Ad2Error(str(exc).replace("--agent", "--model")) from None


def _key(variable: str | None) -> str:
    key = os.environ.get(variable, "").strip() if variable else ""
    if variable and not key:
        raise Ad2Error(f"the environment variable {variable} (--api-key-env) is not set")
    return key


def _load(args: argparse.Namespace, rules: Profile) -> LoadedServices:
    from closedloop_plugin.agents.model_agent import ModelAgent
    from closedloop_plugin.cli.drive.prepared_run import driver_of
    from closedloop_plugin.serve.driver_service import DriverService
    from closedloop_plugin.serve.model_service import ModelService
    from closedloop_plugin.serve.server import LoadedServices

    made = driver_of(args, rules)
    driver = DriverService(
        made.agent, made.interpreter, rules, policy=args.policy, decision_hz=args.decision_hz, seed=args.seed
    )
    words = [ModelService(made.agent.backend)] if isinstance(made.agent, ModelAgent) else []
    return LoadedServices([*words, driver], driver, words[0].name if words else made.agent.name)
