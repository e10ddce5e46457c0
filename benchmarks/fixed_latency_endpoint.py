"""A chat completions endpoint whose every reply is written LATENCY seconds after its request has arrived.

    python benchmarks/fixed_latency_endpoint.py --latency 0.1 --reply "Rating: [[7]]"   # prints its base URL

The time that it takes to make a reply is part of the latency, and it parses no more of HTTP than clients send here:
with a web framework, which takes as long per request as the measured clients, the rate of a bare client was 0.94 of the
ideal. Replies are those of the fake endpoint, whose rules recognise our prompts.
"""

from __future__ import annotations

import argparse
import asyncio
import json
from collections.abc import Callable
from typing import Any

from lmms_eval_ad2.testing import fake_replies

MODELS = {"object": "list", "data": [{"id": "fake", "object": "model"}]}


class FixedLatencyConnection(asyncio.Protocol):
    """One connection of a client. Requests are answered in the order of their deadlines, which is that of arrival."""

    def __init__(self, latency: float, reply: Callable[[dict[str, Any]], str]) -> None:
        self.latency, self.reply = latency, reply
        self.loop = asyncio.get_running_loop()
        self.received = bytearray()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        self.received += data
        while (end := self.received.find(b"\r\n\r\n")) >= 0:
            first, *fields = bytes(self.received[:end]).decode("latin-1").split("\r\n")
            named = dict(field.lower().split(":", 1) for field in fields)
            stop = end + 4 + int(named.get("content-length", "0"))
            if len(self.received) < stop:
                return
            body = bytes(self.received[end + 4 : stop])
            del self.received[:stop]
            if first.startswith("POST"):
                due = self.loop.time() + self.latency
                self.loop.call_at(due, self.write, self.completion(json.loads(body)))
            else:
                self.write(MODELS)

    def completion(self, body: dict[str, Any]) -> dict[str, Any]:
        message = {"role": "assistant", "content": self.reply(body)}
        choice = {"index": 0, "message": message, "finish_reason": "stop", "logprobs": None}
        usage = {"prompt_tokens": 100, "completion_tokens": 10, "total_tokens": 110}
        return {
            "id": "chatcmpl-0", "object": "chat.completion", "created": 0, "model": "fake", "choices": [choice],
            "usage": usage,
        }  # fmt: skip

    def write(self, content: dict[str, Any]) -> None:
        body = json.dumps(content).encode()
        head = f"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
        self.transport.write(head.encode() + body)


async def serve(latency: float, reply: Callable[[dict[str, Any]], str]) -> None:
    """Print the base URL and serve until the process ends."""
    server = await asyncio.get_running_loop().create_server(
        lambda: FixedLatencyConnection(latency, reply), "127.0.0.1", 0, backlog=1024
    )
    print(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1", flush=True)
    await server.serve_forever()


def main() -> None:
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--latency", type=float, required=True, metavar="SECONDS")
    p.add_argument("--reply", required=True, help="a text, or the name of a rule of the fake endpoint")
    args = p.parse_args()
    asyncio.run(serve(args.latency, lambda body: fake_replies.text(args.reply, body)))


if __name__ == "__main__":
    main()
