"""How the runner spends: real requests to a real meter, through a proxy or not, and what becomes of them at notice and at the end."""

from __future__ import annotations

import contextlib
import signal
import socket
import struct
import threading
from collections.abc import Iterator

import pytest

from pytest_cancelcontract.recorder.meter import runner_answers
from tests.meter.provider import Provider, Run
from tests.runner.stand_in import TOKEN, Make, StandIn, Start

PROVIDER = "CANCELCONTRACT_PROVIDER"


@pytest.fixture
def book(provider: Provider) -> Run:
    """The account of the runner's token."""
    return provider.open(choose=runner_answers.choose, key=TOKEN)


@pytest.fixture
def paid(make_stand_in: Make, provider: Provider) -> StandIn:
    """A stand-in that names the meter."""
    return make_stand_in(f"go {{attempt}} work tcp:127.0.0.1:{provider.port}")


def test_a_working_leader_calls_again_and_again_and_is_proven_to_before_it_works(start: Start, paid: StandIn, book: Run) -> None:
    start("polite", to=paid)
    armed = paid.until("working").facts["armed"]
    assert book.of("ended", status=200)
    assert any(row["habit"] == "spends by call" for row in armed)
    (first, *_) = book.wait("request", 3)
    assert (first.data["attempt"], first.data["role"], first.data["side"]) == ("a-1", "leader", False)


def test_only_who_works_spends(start: Start, paid: StandIn, book: Run, provider: Provider) -> None:
    paid.replies = dict.fromkeys(("worker", "deaf-child"), f"go a-1 work tcp:127.0.0.1:{provider.port}")
    start("launcher", "deaf-child", to=paid)
    paid.until("working", "deaf-child")
    book.wait("request", 3)
    assert {one.data["role"] for one in book.of("request")} == {"worker"}


def test_a_stream_is_open_until_the_process_ends(start: Start, paid: StandIn, book: Run) -> None:
    process = start("polite", "streaming", to=paid)
    paid.until("working")
    (stream,) = book.of("request", stream=True)
    book.wait("tokens", 3, request=stream.data["request"])
    assert book.summary()["open"] == [stream.data["request"]]
    process.kill()
    book.wait("disconnected", request=stream.data["request"])


def test_keeps_spending_closes_its_request_at_notice_and_sends_new_ones_later(start: Start, paid: StandIn, book: Run) -> None:
    process = start("keeps-spending", to=paid)
    paid.until("working")
    held = book.wait("request", model="uncooperative/held")[0].data["request"]
    assert len(book.of("request")) == 2
    process.send_signal(signal.SIGTERM)
    ended = book.wait("disconnected", request=held)[0].at_s
    later = [one.at_s for one in book.wait("request", 4) if one.at_s > ended]
    assert later[0] - ended >= 0.3


def test_background_work_goes_on_when_its_process_is_killed(start: Start, paid: StandIn, book: Run) -> None:
    process = start("background-request", to=paid)
    paid.until("working")
    work = book.wait("request", background=True)[0].data["request"]
    process.kill()
    process.wait()
    before = len(book.of("tokens", request=work))
    book.wait("tokens", before + 3, request=work)
    assert book.summary()["open"] == [work]


def test_background_work_is_cancelled_within_the_clean_up(start: Start, paid: StandIn, book: Run) -> None:
    process = start("background-request", to=paid, more=("--cleanup", "0.4"))
    paid.until("working")
    work = book.wait("request", background=True)[0].data["request"]
    process.terminate()
    noticed = paid.until("cleanup-started").facts["at_s"]
    assert book.wait("cancelled", request=work)[0].at_s - noticed >= 0.3
    assert process.wait(10) == 128 + signal.SIGTERM


def test_one_that_cleans_up_or_is_stuck_spends_no_more(start: Start, paid: StandIn, book: Run) -> None:
    process = start("slow-cleanup", to=paid, more=("--cleanup", "1"))
    paid.until("working")
    process.terminate()
    began = paid.until("cleanup-started").facts["at_s"]
    assert process.wait(10) == 128 + signal.SIGTERM
    assert [one for one in book.of("request") if one.at_s > began + 0.3] == []


def test_without_a_provider_it_works_and_says_nothing_of_spending(start: Start, stand_in: StandIn) -> None:
    start("polite", to=stand_in)
    stand_in.until("working")
    assert not stand_in.all("spending")
    assert not stand_in.all("not-spending")


def test_a_provider_that_does_not_answer_is_told_and_keeps_nobody_from_working(start: Start, make_stand_in: Make) -> None:
    with socket.create_server(("127.0.0.1", 0)) as nobody:
        port = nobody.getsockname()[1]
    stand_in = make_stand_in(f"go {{attempt}} work tcp:127.0.0.1:{port}")
    start("polite", to=stand_in)
    stand_in.until("working")
    assert "refused" in stand_in.all("not-spending")[0].facts["why"]


class Proxy:
    """Passes bytes on, and counts its connections."""

    def __init__(self, to_port: int) -> None:
        self._to_port = to_port
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self.count = 0
        self._ends: list[socket.socket] = []
        self._threads = [threading.Thread(target=self._serve)]
        self._threads[0].start()

    def _serve(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            self.count += 1
            provider = socket.create_connection(("127.0.0.1", self._to_port))
            self._ends += [client, provider]
            for one, other in ((client, provider), (provider, client)):
                thread = threading.Thread(target=self._copy, args=(one, other))
                thread.start()
                self._threads.append(thread)  # whoever cuts the connections joins those that it finds here

    @staticmethod
    def _copy(one: socket.socket, other: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := one.recv(65536):
                other.sendall(data)
            other.shutdown(socket.SHUT_WR)

    def cut(self) -> None:
        """Reset every connection, as the end of a gateway that has unread bytes does: no farewell, and nothing to shut down."""
        for end in self._ends:
            end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RD)  # wakes the thread that reads it; a reset is sent by the close alone
        for thread in self._threads[1:]:
            thread.join()
        for end in self._ends:
            end.close()

    def close(self) -> None:
        """Take no more, and hang up on everybody."""
        self._listener.shutdown(socket.SHUT_RDWR)
        self._threads[0].join()
        for end in self._ends:
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join()
        for end in (self._listener, *self._ends):
            end.close()


@pytest.fixture
def proxy(provider: Provider) -> Iterator[Proxy]:
    """One before the meter."""
    one = Proxy(provider.port)
    yield one
    one.close()


def test_a_request_that_a_gateway_has_cut_keeps_nobody_from_ending_the_step(start: Start, paid: StandIn, book: Run, proxy: Proxy) -> None:
    process = start("keeps-spending", to=paid, env={PROVIDER: f"http://127.0.0.1:{proxy.port}/{TOKEN}"})
    paid.until("working")
    book.wait("request", model="uncooperative/held")
    proxy.cut()
    process.terminate()
    paid.until("step-ended")
    assert process.poll() is None and not paid.all("unarmed")


@pytest.mark.parametrize("key", [TOKEN, "n" * len(TOKEN)])
def test_a_proxy_that_the_wrapper_names_is_used_also_by_a_later_run_of_the_same_service(
    key: str, start: Start, paid: StandIn, book: Run, proxy: Proxy
) -> None:
    start("polite", to=paid, env={PROVIDER: f"http://127.0.0.1:{proxy.port}/{key}"})
    paid.until("working")
    book.wait("ended", 2, status=200)
    assert proxy.count >= 2


def test_the_provider_itself_is_reached_in_every_way_whatever_the_environment_says(
    start: Start, make_stand_in: Make, provider: Provider, book: Run
) -> None:
    stand_in = make_stand_in(f"go {{attempt}} work tcp:127.0.0.1:{provider.port}")
    start("polite", to=stand_in, env={PROVIDER: f"http://127.0.0.1:{provider.port}/{'n' * len(TOKEN)}"})
    stand_in.until("working")
    assert book.of("ended", status=200)


def test_a_provider_that_is_no_url_is_an_unarmed_runner(start: Start, paid: StandIn) -> None:
    process = start("polite", to=paid, env={PROVIDER: "ftp://somewhere"})
    assert PROVIDER in paid.until("unarmed").facts["why"]
    assert process.wait(10) == 70
