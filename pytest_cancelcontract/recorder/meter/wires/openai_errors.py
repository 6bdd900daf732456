"""OpenAI's errors, the same for both of its formats: https://platform.openai.com/docs/guides/error-codes."""

from __future__ import annotations

from pytest_cancelcontract.recorder.meter.wires.wire import compact

CODES = {401: "invalid_api_key", 429: "rate_limit_exceeded"}


def failure(status: int, message: str, _retry_after_s: float | None) -> bytes:
    """An error's body."""
    kind = "rate_limit_error" if status == 429 else "invalid_request_error" if status < 500 else "server_error"
    return compact({"error": {"message": message, "type": kind, "param": None, "code": CODES.get(status)}})
