"""A provider for a test of one's own: what it is asked is answered by a script, and counted."""

import json
import urllib.request

from pytest_cancelcontract.meter import Stream, Text


def ask(url: str, *, stream: bool):
    """A request in Anthropic's messages format; the answer is left open, as a client in mid-stream has it."""
    body = {"model": "any", "max_tokens": 1000, "stream": stream, "messages": [{"role": "user", "content": "Go on."}]}
    return urllib.request.urlopen(urllib.request.Request(f"{url}/v1/messages", json.dumps(body).encode(), {"x-api-key": "any"}), timeout=20)


def test_a_stream_that_is_closed_spends_nothing_more(cancel_meter):
    cancel_meter.script(Text("Two words."), Stream(tokens=100_000, tokens_per_s=50))  # in order; the last one repeats
    with ask(cancel_meter.url, stream=False) as answer:
        assert json.load(answer)["content"][0]["text"] == "Two words."
    answer = ask(cancel_meter.url, stream=True)
    cancel_meter.until(requests=2, tokens=10)
    assert [one.id for one in cancel_meter.open] == ["r2"]
    answer.close()  # what a cancel has to do
    cancel_meter.until(disconnected=1)
    assert cancel_meter.requests[1].ending == "disconnected"
    assert cancel_meter.open == ()
