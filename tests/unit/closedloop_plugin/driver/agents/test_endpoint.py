"""The fast system behind an endpoint: batches, order, pictures, failures by name, spec strings."""

from __future__ import annotations

import base64
import io
import json
from dataclasses import replace

import numpy as np
import pytest
from PIL import Image
from support.closedloop.models import decision_request, picture
from support.closedloop.time_limits import LIMITS_S, with_growing_limits

from closedloop_plugin.core.image_encoding import ImageEncoding, SentImages, common_encodings
from closedloop_plugin.core.state import Decision
from closedloop_plugin.driver.agents.endpoint import EndpointModel, _reply, endpoint_options
from closedloop_plugin.driver.agents.make import make_agent
from closedloop_plugin.driver.agents.model_backend import ModelReply
from lmms_eval_ad2.core.errors import Ad2Error
from lmms_eval_ad2.llm.completion import ChatReply
from lmms_eval_ad2.testing.fake_endpoint import serve
from lmms_eval_ad2.testing.fake_replies import asked

FAST = "max_retries=1,backoff=0.001"


def _echo_speed(body) -> str:
    """Repeats the speed of the prompt: shows which question a reply belongs to."""
    return "drive at " + asked(body).split("travel at ")[1].split(" m/s")[0]


@pytest.mark.integration
def test_decisions_are_in_the_order_of_the_requests() -> None:
    requests = [decision_request(f"e{i}", speed=float(i)) for i in range(9)]
    with serve(reply=_echo_speed) as server:
        decisions = make_agent(f"endpoint:m@{server.url}").decide(requests)
    assert [d.texts["action"] for d in decisions] == [f"drive at {i}.0" for i in range(9)]
    assert all(d.error is None and d.latency_s > 0 for d in decisions)
    assert len({d.latency_s for d in decisions}) == 1  # one batch, one time


@pytest.mark.integration
def test_all_requests_and_tasks_are_in_flight_together() -> None:
    tasks = ("action", "trajectory", "reasoning", "threat")

    def in_flight(latency_s: float) -> int:
        with serve(reply="Stop.", latency_s=latency_s) as server:
            agent = make_agent(f"endpoint:m@{server.url}", tasks=tasks)
            # Until the first reply few requests are in flight, in case the endpoint refuses all.
            agent.decide([decision_request()])
            decisions = agent.decide([decision_request(f"e{i}") for i in range(4)])
            assert list(decisions[0].texts) == list(tasks)
            return server.most_in_flight

    assert with_growing_limits(in_flight, lambda most: most < 16, (0.2, 2.0, 20.0)) == 16


@pytest.mark.integration
def test_the_pictures_arrive_as_sent_and_in_the_cameras_order() -> None:
    with serve(reply="Stop.", keep_bodies=True) as server:
        agent = make_agent(f"endpoint:m@{server.url},format=png", cameras="surround@80x45")
        agent.decide([decision_request()])
        content = server.bodies[0]["messages"][0]["content"]
    names = [c.name for c in agent.cameras]
    assert names[0] == "front" and len(names) == 6
    assert [part["type"] for part in content] == ["image_url"] * 6 + ["text"]
    for name, part in zip(names, content, strict=False):
        head, _, data = part["image_url"]["url"].partition(",")
        assert head == "data:image/png;base64"
        assert np.array_equal(np.asarray(Image.open(io.BytesIO(base64.b64decode(data)))), picture(name))
    assert ", ".join(n.replace("_", " ") for n in names) in content[-1]["text"]


@pytest.mark.integration
def test_jpeg_is_the_default_and_close_to_the_picture() -> None:
    with serve(reply="Stop.", keep_bodies=True) as server:
        make_agent(f"endpoint:m@{server.url}").decide([decision_request()])
        url = server.bodies[0]["messages"][0]["content"][0]["image_url"]["url"]
    assert url.startswith("data:image/jpeg;base64,")
    decoded = np.asarray(Image.open(io.BytesIO(base64.b64decode(url.partition(",")[2]))), dtype=int)
    assert abs(decoded - picture("front")).mean() < 3


@pytest.mark.integration
@pytest.mark.parametrize(
    ("failure", "named"),
    [("500", "http_500"), ("503", "http_503"), ("hang", "timeout"), ("cut", "connection"),
     ("html_200", "invalid_reply"), ("invalid_json", "invalid_reply"),
     ("no_choices", "invalid_reply"), ("empty", "empty_reply"), ("400", "http_400"),
     ("broken_off", "broken_off"), ("refusal", "refused"), ("filtered", "refused")],
)  # fmt: skip
def test_a_failing_request_fails_only_its_own_decision(failure: str, named: str) -> None:
    def fails(number: int, body) -> str:
        return failure if "travel at 1.0 " in asked(body) else "ok"

    def decided(limit_s: float) -> list[Decision]:
        with serve(reply="Stop.", failures=fails) as server:
            agent = make_agent(f"endpoint:m@{server.url},{FAST},timeout={limit_s}")
            return agent.decide([decision_request(f"e{i}", speed=float(i)) for i in range(3)])

    limits_s = LIMITS_S if failure == "hang" else LIMITS_S[-1:]
    decisions = with_growing_limits(
        decided, lambda all_: any("timeout" in (d.error or "") for d in all_[::2]), limits_s
    )
    assert [d.error is None for d in decisions] == [True, False, True]
    assert decisions[1].error.startswith(f"action: {named}") and decisions[1].texts == {}
    assert decisions[0].texts == {"action": "Stop."}


def test_a_thought_that_the_token_limit_ends_is_an_unread_reply_and_no_failure() -> None:
    assert _reply(ChatReply("", "length"), 0.0) == ModelReply("", cut=True)
    assert _reply(ChatReply("", "stop"), 0.0).error == "empty_reply"


@pytest.mark.integration
def test_temporary_failures_are_retried() -> None:
    with serve(reply="Stop.", failures=["429", "500", "cut"], retry_after_s=0.01) as server:
        decisions = make_agent(f"endpoint:m@{server.url},max_retries=3,backoff=0.001").decide([decision_request()])
        assert server.requests == 4
    assert decisions[0].texts == {"action": "Stop."}


@pytest.mark.integration
def test_user_errors_stop_the_run_with_one_line() -> None:
    with serve(reply="Stop.", failures=["401"]) as server:
        agent = make_agent(f"endpoint:m@{server.url}")
        with pytest.raises(Ad2Error, match="refuses every request"):
            agent.decide([decision_request()])
        closed_url = server.url
    with pytest.raises(Ad2Error, match="no endpoint answers at") as caught:
        make_agent(f"endpoint:m@{closed_url}")
    assert "\n" not in str(caught.value)


@pytest.mark.integration
def test_a_second_run_with_a_cache_sends_no_requests(tmp_path) -> None:
    with serve(reply=_echo_speed) as server:
        first = make_agent(f"endpoint:m@{server.url}", cache=tmp_path / "c.sqlite").decide(
            [decision_request(speed=2.0)]
        )
        second = make_agent(f"endpoint:m@{server.url}", cache=tmp_path / "c.sqlite").decide(
            [decision_request(speed=2.0)]
        )
        assert server.requests == 1
        make_agent(f"endpoint:m@{server.url}", cache=tmp_path / "c.sqlite").decide([decision_request(speed=2.5)])
        assert server.requests == 2
    assert first[0].texts == second[0].texts


@pytest.mark.integration
def test_sampled_replies_are_not_shared_between_episodes(tmp_path) -> None:
    with serve(reply="Stop.") as server:
        model = EndpointModel.from_spec(f"m@{server.url},temperature=0.7", cache=tmp_path / "c.sqlite")
        model.ask(make_agent(f"endpoint:m@{server.url}").questions([decision_request("a"), decision_request("b")]))
        assert server.requests == 2


@pytest.mark.integration
def test_the_key_is_sent_and_not_recorded(monkeypatch) -> None:
    monkeypatch.setenv("MY_KEY", "secret-123")
    with serve(reply="Stop.", keep_bodies=True) as server:
        agent = make_agent(f"endpoint:m@{server.url},api_key_env=MY_KEY")
        agent.decide([decision_request()])
        assert server.headers[0]["Authorization"] == "Bearer secret-123"
    assert "secret" not in json.dumps(agent.describe()) and "secret" not in repr(vars(agent.backend))


@pytest.mark.integration
def test_the_description_of_an_agent() -> None:
    with serve(reply="Stop.") as server:
        agent = make_agent(
            f"endpoint:m@{server.url},max_tokens=99", tasks=("action", "threat"), cameras="front@800x450"
        )
        agent.decide([decision_request()])
    description = agent.describe()
    assert description["name"] == "endpoint:m" and description["max_tokens"] == 99 and description["temperature"] == 0.0
    assert description["tasks"] == ["action", "threat"] and description["cameras"] == ["front 800x450"]
    assert len(description["prompts_sha256"]) == 64 and description["served_as"] == ["m"]
    assert json.loads(json.dumps(description)) == description


@pytest.mark.parametrize(
    ("spec", "model", "url"),
    [
        ("m@http://h:1/v1", "m", "http://h:1/v1"),
        ("m@http://h:1/v1/", "m", "http://h:1/v1"),
        ("org/m-7b:free@https://h/v1", "org/m-7b:free", "https://h/v1"),
        ("http://h:1/v1,model=m", "m", "http://h:1/v1"),
        ("model=m,base_url=http://h:1/v1", "m", "http://h:1/v1"),
        ("m@http://[::1]:8000/v1", "m", "http://[::1]:8000/v1"),
        ("m@http://h:1/v1,timeout=5,temperature=0.5", "m", "http://h:1/v1"),
    ],
)
def test_valid_specs_are_read(spec: str, model: str, url: str) -> None:
    options = endpoint_options(spec)
    assert (options["model"], options["base_url"]) == (model, url)


@pytest.mark.parametrize(
    ("spec", "says"),
    [
        ("", "which model"), ("http://h:1/v1", "which model"), ("m@ftp://h/v1", "http"), ("m@h:1", "http"),
        ("m@http://", "http"), ("m@http://u:p@h/v1", "user names, passwords"), ("m@http://h/v1?k=1", "queries"),
        ("m@http://h:99999999/v1", "is not a URL"), ("m@http://h/v1,api_key=x", "no key belongs here"),
        ("m@http://h/v1,timout=3", "did you mean 'timeout'"), ("m@http://h/v1,timeout=soon", "a number"),
        ("m@http://h/v1,timeout=0", "at least"), ("m@http://h/v1,timeout=nan", "at least"),
        ("m@http://h/v1,max_retries=1.5", "a whole number"), ("m@http://h/v1,fast", "KEY=VALUE"),
        ("m@http://h/v1,temperature=-1", "at least"),
    ],
)  # fmt: skip
def test_invalid_specs_are_refused(spec: str, says: str) -> None:
    with pytest.raises(Ad2Error, match=says) as caught:
        endpoint_options(spec)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("spec", "more", "says"),
    [
        ("experts", {}, "did you mean 'expert'"), ("", {}, "known: expert"), ("expert:fast", {}, "no agent"),
        ("lmms:", {}, "which model"), ("endpoint:m@http://h/v1", {"tasks": ("actoin",)}, "actoin"),
        ("endpoint:m@http://h/v1", {"tasks": ()}, "tasks"), ("endpoint:m@http://h/v1", {"cameras": "rear"}, "front or"),
        ("endpoint:m@http://h/v1", {"cameras": "front@800"}, "a size like"),
        ("endpoint:m@http://h/v1", {"cameras": "front@9x9"}, "a size like"),
        ("endpoint:m@http://h/v1", {"fine_grained": "much"}, "fine-grained"),
        ("endpoint:m@http://h/v1", {"fine_grained": True, "tasks": ("trajectory",)}, "add the task 'action'"),
        ("endpoint:m@http://h/v1", {"prompts": "no-such.yaml"}, "no-such.yaml"),
    ],
)  # fmt: skip
def test_invalid_agents_are_refused_with_the_reason(spec: str, more: dict, says: str) -> None:
    with pytest.raises(Ad2Error, match=says):
        make_agent(spec, **more)


@pytest.mark.integration
def test_pictures_that_the_world_has_encoded_give_the_same_request() -> None:
    def body(encode: bool) -> dict[str, object]:
        with serve(reply="Stop.", keep_bodies=True) as server:
            agent = make_agent(f"endpoint:m@{server.url},quality=80", cameras="surround@80x45")
            request = decision_request()
            if encode:
                names = [camera.name for camera in agent.cameras]
                sent = SentImages.of(request.observation.images, names, common_encodings([agent]))
                assert not sent.arrays and len(sent.urls) == len(names)
                request = replace(request, observation=replace(request.observation, images=sent))
            assert agent.decide([request])[0].error is None
            return server.bodies[0]

    assert body(encode=True) == body(encode=False)


@pytest.mark.integration
def test_a_model_in_this_process_gets_arrays() -> None:
    with serve() as server:
        endpoint, arrays = make_agent(f"endpoint:m@{server.url}"), make_agent("straight")
    assert common_encodings([endpoint]) == {ImageEncoding("jpeg", 90)}
    assert common_encodings([endpoint, arrays]) is None
    assert common_encodings([]) == frozenset()


@pytest.mark.integration
def test_a_decision_names_its_prompt_and_its_tokens() -> None:
    """The hash depends on text and image, not on the episode; counts of all tasks are added."""
    requests = [decision_request("a", speed=3.0), decision_request("b", speed=3.0), decision_request("a", speed=4.0)]
    with serve(reply="Stop.") as server:
        one, same, other = make_agent(f"endpoint:m@{server.url}").decide(requests)
        both = make_agent(f"endpoint:m@{server.url}", tasks=("action", "reasoning")).decide(requests[:1])[0]
        dark = replace(
            requests[0], observation=replace(requests[0].observation, images=lambda name: picture(name) // 2)
        )
        night = make_agent(f"endpoint:m@{server.url}").decide([dark])[0]
    hashes = [d.usage.prompt_sha256 for d in (one, same, other, both, night)]
    assert hashes[0] == hashes[1]
    assert len(set(hashes)) == 4
    assert (one.usage.tokens_out, both.usage.tokens_out) == (1, 2)  # the word "Stop."


@pytest.mark.integration
def test_tokens_that_an_endpoint_does_not_report_are_unknown() -> None:
    with serve(reply="Stop.", report_usage=False) as server:
        (decision,) = make_agent(f"endpoint:m@{server.url}").decide([decision_request()])
    assert decision.usage.prompt_sha256 is not None
    assert (decision.usage.tokens_in, decision.usage.tokens_out) == (None, None)
