"""ad2-driver: the same control as without a server, the protocol's answers and refusals, episodes."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.closedloop.models import FakeModel, observation, picture
from support.closedloop.serving import Served, chat, client, served, user

from closedloop_plugin.carla.leaderboard_agent.ad2_link import (
    DriverFailure,
    DriverHttpClient,
    LeaderboardAgentConfig,
    png,
)
from closedloop_plugin.core.profiles import PROFILES, profile
from closedloop_plugin.core.state import COAST, Control, Decision, InterpretedControl, RouteCommand
from closedloop_plugin.driver.agent import DecisionRequest
from closedloop_plugin.driver.agents.driving_prompts import DrivingPrompts
from closedloop_plugin.driver.agents.history import with_history
from closedloop_plugin.driver.agents.make import cameras_of, make_agent
from closedloop_plugin.driver.agents.model_agent import ModelAgent
from closedloop_plugin.driver.agents.model_backend import ModelQuestion, ModelReply
from closedloop_plugin.driver.agents.tracking import LANE_M
from closedloop_plugin.driver.interpreters.applied_control import verdict
from closedloop_plugin.driver.interpreters.make import make_interpreter
from closedloop_plugin.driver.prompts.texts import PromptTexts
from closedloop_plugin.interfaces.serve.requests import ApiError
from closedloop_plugin.interfaces.serve.services import EPISODES, DriverService
from closedloop_plugin.runner import decisions
from lmms_eval_ad2.storage.identity import code_label

RULES = profile("bench2advlm")
NAMES = ("front", "front_left", "front_right", "back", "back_left", "back_right")


def model_agent(model: FakeModel, cameras: str = "front@80x45", tasks: tuple[str, ...] = ("action",)) -> ModelAgent:
    seen = cameras_of(cameras, RULES)
    return ModelAgent(model, DrivingPrompts(PromptTexts.load(), RULES, tuple(c.name for c in seen)), seen, tasks)


def service(model: FakeModel, **options: Any) -> DriverService:
    return DriverService(model_agent(model, **options), make_interpreter("rules", "rules", RULES), RULES)


def request(
    speed: float = 3.0, command: RouteCommand = RouteCommand.FOLLOW, tick: int = 4, **changes: Any
) -> dict[str, Any]:
    return {
        "ad2_drive": 1, "episode": "e0", "tick": tick, "time_s": tick * 0.05, "speed": speed, "command": str(command),
        "target": [10.0, 0.0], "speed_limit": 13.9, "cameras": ["front"], **changes,
    }  # fmt: skip


def ask_for(server: Served, body: dict[str, Any], names: tuple[str, ...] = ("front",)) -> dict[str, Any]:
    """The JSON object in the reply to `body`, through OpenAI's client."""
    with client(server.url) as openai_client:
        messages = user(*(picture(n) for n in names), json.dumps(body))
        reply = openai_client.chat.completions.create(model="ad2-driver", messages=messages)
    return json.loads(reply.choices[0].message.content or "")


def refusal(driver: DriverService, *parts: Any) -> str:
    with pytest.raises(ApiError) as refused:
        driver.read(chat(messages=user(*parts)))
    assert refused.value.status == 400
    return refused.value.message


REPLIES = [
    "Speed up.",
    "Slow down and turn left.",
    "Stop now.",
    "Turn right slowly.",
    "Keep going straight.",
    "Bananas.",
]


@pytest.mark.integration
@pytest.mark.parametrize("words", REPLIES)
@pytest.mark.parametrize(
    ("speed", "command"), [(0.0, RouteCommand.FOLLOW), (4.2, RouteCommand.LEFT), (7.5, RouteCommand.RIGHT)]
)
def test_the_served_control_equals_that_without_a_server(words: str, speed: float, command: RouteCommand) -> None:
    def answer(question: ModelQuestion) -> str:  # checks its picture
        return words if question.images[0][0, 0, 2] == picture("front")[0, 0, 2] else "a wrong picture"

    model = FakeModel(answer)
    agent, interpreter = model_agent(model), make_interpreter("rules", "rules", RULES)
    direct = DecisionRequest("e0", observation(speed=speed, command=command))
    (decision,) = agent.decide([direct])
    (expected,) = interpreter.interpret([(direct, decision)])
    driver = DriverService(agent, interpreter, RULES)
    with served(driver=driver) as server:
        reply = ask_for(server, request(speed, command))
    assert model.calls[0][0].text == model.calls[1][0].text
    if expected.control is None:
        assert reply["control"] is None and reply["unparsed"] == expected.reason
    else:
        assert Control(**reply["control"]) == RULES.post(expected.control, speed) and reply["unparsed"] is None
    assert (reply["texts"], reply["raw"], reply["error"]) == ({"action": words}, expected.raw, None)
    assert (reply["ad2_drive"], reply["mode"], reply["policy"]) == (1, expected.mode, "official")
    assert reply["latency_s"] == pytest.approx(0.25 + expected.latency_s, abs=0.05)


def test_the_sample_replies_include_readable_and_unreadable_ones() -> None:
    """Guards the test above against comparing only failures."""
    driver = service(FakeModel(lambda q: REPLIES[int(q.key.split("|")[0])]))
    requests = [DecisionRequest(f"e{i}", observation()) for i in range(len(REPLIES))]
    replies = [json.loads(done.text) for done in driver.answer(requests)]
    assert [t["unparsed"] is None for t in replies] == [True] * 5 + [False]
    assert len({str(t["control"]) for t in replies}) >= 4


any_control = st.builds(Control, *[st.floats(-2, 2) | st.sampled_from([float("nan"), float("inf")])] * 3)
any_interpreted = st.builds(
    InterpretedControl, st.none() | any_control, st.text(max_size=20),
    st.sampled_from([None, "no_reply timeout", "no_description", "truncated", "two answers"]),
)  # fmt: skip
any_decision = st.builds(
    Decision, st.just({"action": "x"}), st.none() | any_control, error=st.none() | st.text(max_size=9)
)


@given(any_decision, st.none() | any_interpreted, st.sampled_from(sorted(PROFILES)), st.floats(0, 20))
def test_the_verdict_equals_that_of_the_control_scheduler(
    decision: Decision, interpreted: InterpretedControl | None, name: str, speed: float
) -> None:
    """A client that coasts without a control drives like the runner with the same decision."""
    rules = profile(name)
    scheduler = decisions.ControlScheduler(rules, decisions.DecisionRules(), 0)
    scheduler.take(decisions.DecisionResponse(decision, interpreted), 0)
    given, error, unparsed = verdict(decision, interpreted, rules, speed)
    assert sum(x is not None for x in (given, error, unparsed)) == 1
    assert (given or COAST) == scheduler.control(0, speed)
    assert (scheduler.counts["agent_errors"], scheduler.counts["unparsed"]) == (error is not None, unparsed is not None)


@pytest.mark.integration
def test_the_description_defines_the_sensors_of_a_client() -> None:
    driver = DriverService(
        model_agent(FakeModel(lambda q: "x"), "surround@800x450"), make_interpreter("rules", "rules", RULES), RULES,
        policy="strict", decision_hz=2.0,
    )  # fmt: skip
    with served(driver=driver) as server:
        status, reply, _ = server.call("/v1/ad2/driver")
        listed = [m["id"] for m in server.call("/v1/models")[1]["data"]]
    assert status == 200 and listed == ["ad2-driver"]
    assert [c["name"] for c in reply["cameras"]] == list(NAMES)
    left = reply["cameras"][1]
    assert left == {"name": "front_left", "width": 800, "height": 450, "fov": 70.0, "forward": 0.27, "right": -0.55,
                    "up": 1.6, "yaw": -55.0}  # fmt: skip
    assert (reply["ad2_drive"], reply["profile"], reply["hz"], reply["decision_hz"]) == (1, "bench2advlm", 10.0, 2.0)
    assert reply["agent"]["kind"] == "model" and reply["interpreter"]["name"] == "rules" and reply["policy"] == "strict"
    assert reply["version"] == code_label()


@pytest.mark.integration
def test_the_client_of_the_bench2drive_agent_reads_every_answer() -> None:

    def answer(question: ModelQuestion) -> ModelReply | str:
        return ModelReply(error="timeout") if "travel at 1.0 " in question.text else "Stop." if question.images else "?"

    bgra = np.dstack([picture("front")[:, :, ::-1], np.full((45, 80), 255, np.uint8)])
    fields = {k: v for k, v in request(3.0).items() if k != "ad2_drive"}
    with served(driver=service(FakeModel(answer)), key="sesame") as server:
        link = DriverHttpClient(
            LeaderboardAgentConfig(base_url=server.url, api_key_env="KEY", retries=0, wait_s=0.0), {"KEY": "sesame"}
        )
        assert link.driver()["cameras"][0]["width"] == 80
        reply = link.decide(fields, [("png", png(bgra))])
        with pytest.raises(DriverFailure, match="the driver failed: action: timeout"):
            link.decide({**fields, "speed": 1.0}, [("png", png(bgra))])
        with pytest.raises(DriverFailure, match=r"HTTP 400: cameras: .* there is no front"):
            link.decide({**fields, "cameras": []}, [])
    assert reply["control"]["brake"] > 0 and reply["unparsed"] is None
    with served(driver=service(FakeModel(lambda q: "Bananas."))) as server:
        link = DriverHttpClient(LeaderboardAgentConfig(base_url=server.url, retries=0, wait_s=0.0), {})
        reply = link.decide(fields, [("png", png(bgra))])
        assert reply["control"] is None and reply["unparsed"]


def test_pictures_are_matched_to_cameras_in_any_order_and_others_are_not_decoded() -> None:
    model = FakeModel(lambda q: "Stop.")
    driver = service(model, cameras="surround@80x45")
    order = (*reversed(NAMES), "rear_view")
    parts = [picture(n) for n in NAMES[::-1]] + [{"type": "image_url", "image_url": {"url": "data:nonsense"}}]
    driver.answer([driver.read(chat(messages=user(*parts, json.dumps(request(cameras=order))))).payload])
    for image, name in zip(model.calls[0][0].images, NAMES, strict=True):
        assert np.array_equal(image, picture(name))


def test_missing_cameras_are_named() -> None:
    driver = service(FakeModel(lambda q: "x"), cameras="surround@80x45")
    reply = refusal(driver, picture("front"), picture("back"), json.dumps(request(cameras=["front", "back"])))
    assert "there is no front_left, front_right, back_left, back_right" in reply


@pytest.mark.integration
def test_failures_are_reported_and_counted() -> None:
    def answer(question: ModelQuestion) -> ModelReply | str:
        return ModelReply(error="timeout") if "travel at 1.0 " in question.text else "Stop."

    with served(driver=service(FakeModel(answer))) as server:
        failed, fine = ask_for(server, request(1.0)), ask_for(server, request(2.0, speed_limit=None))
        health = server.call("/health")[1]
    assert (failed["error"], failed["control"], failed["texts"]) == ("action: timeout", None, {})
    assert fine["error"] is None and fine["control"]["brake"] > 0
    assert (health["failed"], health["answered"]) == (1, 1)


def test_after_a_failed_batch_each_request_can_be_retried_alone() -> None:
    driver = service(FakeModel(lambda q: ModelReply(error="generation_failed: x")))
    requests = [DecisionRequest(f"e{i}", observation()) for i in range(2)]
    with pytest.raises(RuntimeError, match="generation_failed"):
        driver.answer(requests)
    (alone,) = driver.answer(requests[:1])
    assert json.loads(alone.text)["error"] == "action: generation_failed: x" and alone.failed


@pytest.mark.parametrize(
    ("change", "named"),
    [({"ad2_drive": 2}, "ad2_drive"), ({"episode": ""}, "episode"), ({"episode": "\ud800"}, "episode"),
     ({"episode": "x" * 201}, "episode"), ({"tick": -1}, "tick"), ({"tick": 1.5}, "tick"), ({"tick": True}, "tick"),
     ({"time_s": "1"}, "time_s"), ({"speed": float("nan")}, "speed"), ({"speed": None}, "speed"),
     ({"speed": 10**400}, "speed"), ({"command": "drift"}, "lane follow"), ({"command": []}, "command"),
     ({"target": [1]}, "target"), ({"target": [1, None]}, "target"), ({"target": {"a": 1}}, "target"),
     ({"speed_limit": -1}, "speed_limit"), ({"route_offset": "x"}, "route_offset"),
     ({"cameras": "front"}, "cameras"), ({"cameras": []}, "0 names for 1"),
     ({"cameras": [["front"]]}, "cameras")],
)  # fmt: skip
def test_the_invalid_field_is_named(change: dict[str, Any], named: str) -> None:
    assert named in refusal(service(FakeModel(lambda q: "x")), picture("front"), json.dumps(request(**change)))


def test_text_around_the_object_is_refused() -> None:
    driver = service(FakeModel(lambda q: "x"))
    assert "JSON object" in refusal(driver, picture("front"), "two", "texts")
    assert "not JSON" in refusal(driver, picture("front"), "What should the car do?")
    twice = json.dumps(request(cameras=["front", "front"]))
    assert "each once" in refusal(driver, picture("front"), picture("front"), twice)


def test_a_baseline_drives_without_a_model_and_restarts_episodes() -> None:
    """`random` has a generator for each episode: same name and seed, same drive; a restarted episode begins again."""

    def drive(driver: DriverService, ticks: range, episode: str) -> list[str]:
        return [_drive(driver, request(tick=t, episode=episode, cameras=[])) for t in ticks]

    def random_driver(seed: int = 0) -> DriverService:
        return DriverService(make_agent("random"), None, RULES, seed=seed)

    first = drive(random_driver(), range(0, 60, 10), "a")
    assert len(set(first)) > 2
    assert drive(random_driver(), range(0, 60, 10), "a") == first
    assert drive(random_driver(1), range(0, 60, 10), "a") != first
    restarted = random_driver()
    assert drive(restarted, range(0, 60, 10), "a") == first == drive(restarted, range(0, 60, 10), "a")
    assert drive(restarted, range(0, 60, 10), "b") != first


def test_a_history_has_the_controls_that_were_sent_and_ends_with_its_episode() -> None:
    model = FakeModel(lambda q: "Accelerate.")
    cameras = cameras_of("front@80x45", RULES)
    inner = ModelAgent(model, DrivingPrompts(PromptTexts.load(), RULES, history=2), cameras)
    driver = DriverService(with_history(inner, 2), make_interpreter("rules", "rules", RULES), RULES)
    requests = [DecisionRequest("e0", observation(tick=tick)) for tick in (0, 2, 0)]
    sent = [json.loads(driver.answer([r])[0].text)["control"]["throttle"] for r in requests]
    first, second, again = (call[0] for call in model.calls)
    assert f'"Accelerate." -> throttle {sent[0]:.2f}, steer' in second.text and sent[0] > 0
    assert (len(first.images), len(second.images), len(again.images)) == (1, 2, 1)
    assert again.text == first.text


def test_a_repeated_request_has_the_control_before_its_first_try() -> None:
    agent = make_agent("random")
    seen: list[Control | None] = []
    decide = agent.decide
    agent.decide = lambda requests: seen.extend(r.applied for r in requests) or decide(requests)  # type: ignore[method-assign,func-returns-value]
    driver = DriverService(agent, None, RULES)
    sent = []
    for tick in (0, 0, 10, 10, 10, 20):
        sent.append(Control(**json.loads(_drive(driver, request(tick=tick, cameras=[])))["control"]))
    assert len({str(control) for control in sent}) > 1
    assert seen == [None, None, sent[1], sent[1], sent[1], sent[4]]


def test_words_lead_to_the_next_lane_from_the_offset_of_a_request() -> None:
    """After a change into the lane to the left, 3.5 m off the route, "keep" stays there, and a change returns."""
    keep, left, right = "Keep the lane and go on.", "Change lane to the left.", "Change lane to the right."

    def steer(*said: tuple[str, float | None]) -> float:
        """Steering of the last of the words, each said at an offset from the route."""
        replies = iter(words for words, _ in said)
        driver = service(FakeModel(lambda q: next(replies)))
        for tick, (_, offset) in enumerate(said):
            asked = request(tick=tick, target=[8.0, -LANE_M if offset is None else -offset], route_offset=offset)
            payload = driver.read(chat(messages=user(picture("front"), json.dumps(asked)))).payload
            (done,) = driver.answer([payload])
        return float(json.loads(done.text)["control"]["steer"])

    assert steer((left, 1.7), (keep, LANE_M)) == pytest.approx(0.0, abs=0.01)
    assert steer((left, 1.7), (right, LANE_M)) > 0.1
    assert steer((left, LANE_M)) < -0.1
    assert steer((keep, LANE_M)) > 0.1 and steer((keep, None)) > 0.1  # to the route


def test_the_number_of_kept_episodes_is_limited() -> None:
    agent = make_agent("random")
    driver = DriverService(agent, None, RULES)
    for i in range(EPISODES + 5):
        _drive(driver, request(episode=f"e{i}", cameras=[]))
    assert len(driver._episodes) == len(agent._generators) == EPISODES  # type: ignore[attr-defined]


def _drive(driver: DriverService, body: dict[str, Any]) -> str:
    (done,) = driver.answer([driver.read(chat(messages=user(json.dumps(body)))).payload])
    return done.text
