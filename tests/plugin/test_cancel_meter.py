"""The fixture ``cancel_meter``: a provider that a team's test scripts, asks and reads."""

from __future__ import annotations

import pytest

from tests.plugin.conftest import Run

CLIENT = """
    import json, threading, time, urllib.request
    import pytest
    from pytest_cancelcontract.meter import Failure, HeldUntilPressed, NotReached, Stream, Text

    def ask(url, stream=False, key="sk-secret"):
        body = {"model": "m", "max_tokens": 9, "stream": stream, "messages": [{"role": "user", "content": "Go."}]}
        request = urllib.request.Request(f"{url}/v1/messages", json.dumps(body).encode(), {"x-api-key": key})
        return urllib.request.urlopen(request, timeout=20)

"""


def test_answers_come_in_order_and_all_is_counted(pytester: pytest.Pytester, run: Run) -> None:
    pytester.makepyfile(
        CLIENT
        + """
    def test_it(cancel_meter):
        cancel_meter.script(Text("one two three"), Text("four"))
        said = [json.load(ask(cancel_meter.url))["content"][0]["text"] for _ in range(3)]
        assert said == ["one two three", "four", "four"]
        cancel_meter.script(Text("anew"))
        assert json.load(ask(cancel_meter.url))["content"][0]["text"] == "anew"
        cancel_meter.until(requests=4, tokens=6)
        assert [(one.tokens, one.ending, one.status) for one in cancel_meter.requests] == [
            (3, "ended", 200), (1, "ended", 200), (1, "ended", 200), (1, "ended", 200)]
        assert cancel_meter.open == ()
        assert "sk-secret" not in repr(cancel_meter.requests)
    """
    )
    run().assert_outcomes(passed=1)


def test_a_stream_that_is_left_is_seen_to_be(pytester: pytest.Pytester, run: Run) -> None:
    pytester.makepyfile(
        CLIENT
        + """
    def test_it(cancel_meter):
        cancel_meter.script(Stream(tokens=100000, tokens_per_s=50))
        answer = ask(cancel_meter.url, stream=True)
        cancel_meter.until(tokens=5)
        assert len(cancel_meter.open) == 1
        answer.close()
        cancel_meter.until(disconnected=1)
        before = cancel_meter.tokens
        time.sleep(0.3)
        assert cancel_meter.tokens == before
        assert cancel_meter.requests[0].ending == "disconnected"
    """
    )
    run().assert_outcomes(passed=1)


def test_what_is_held_goes_on_once_cancel_was_pressed(pytester: pytest.Pytester, run: Run) -> None:
    pytester.makepyfile(
        CLIENT
        + """
    def test_it(cancel_meter):
        cancel_meter.script(HeldUntilPressed(Text("late")))
        said = []
        thread = threading.Thread(target=lambda: said.append(json.load(ask(cancel_meter.url))["content"][0]["text"]))
        thread.start()
        cancel_meter.until(requests=1)
        assert said == [] and len(cancel_meter.open) == 1
        cancel_meter.press()
        thread.join(20)
        assert said == ["late"]
    """
    )
    run().assert_outcomes(passed=1)


def test_what_does_not_come_fails_with_what_did(pytester: pytest.Pytester, run: Run) -> None:
    pytester.makepyfile(
        CLIENT
        + """
    def test_it(cancel_meter):
        ask(cancel_meter.url).close()
        with pytest.raises(NotReached, match="did not see requests 2 within 0.2 s; it has requests 1"):
            cancel_meter.until(requests=2, within_s=0.2)
        with pytest.raises(ValueError, match="counts requests, tokens, open and disconnected, not money"):
            cancel_meter.until(money=2)
        with pytest.raises(ValueError, match="at least one answer"):
            cancel_meter.script()
    """
    )
    run().assert_outcomes(passed=1)


def test_each_test_has_a_provider_of_its_own_and_it_ends_with_the_test(pytester: pytest.Pytester, run: Run) -> None:
    pytester.makepyfile(
        CLIENT
        + """
    urls = []

    def test_one(cancel_meter):
        urls.append(cancel_meter.url)
        ask(cancel_meter.url).close()

    def test_other(cancel_meter):
        with pytest.raises(urllib.error.HTTPError) as told:
            ask(urls[0])
        assert told.value.code == 410
        told.value.close()
        assert cancel_meter.requests == ()
    """
    )
    run().assert_outcomes(passed=2)


def test_a_test_may_close_it_itself_and_what_was_refused_is_listed(pytester: pytest.Pytester, run: Run) -> None:
    pytester.makepyfile(
        CLIENT
        + """
    def test_it(cancel_meter):
        with pytest.raises(urllib.error.HTTPError) as told:
            urllib.request.urlopen(f"{cancel_meter.openai_url}/embeddings", b"{}", timeout=20)
        told.value.close()
        cancel_meter.until(requests=1)
        (one,) = cancel_meter.requests
        assert (one.path, one.wire, one.is_side, one.ending, one.status, one.tokens) == ("/v1/embeddings", "other", False, "ended", 404, 0)
        cancel_meter.close()
        cancel_meter.close()
    """
    )
    run().assert_outcomes(passed=1)
