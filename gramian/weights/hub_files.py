"""Reading files of one commit from the Hub: whole small files, and exact byte ranges of large ones."""

import logging
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Literal

import httpx2
import stamina
from huggingface_hub import hf_hub_url
from huggingface_hub.utils import (  # type: ignore[attr-defined]  # re-exported lazily
    build_hf_headers,
    get_session,
    hf_raise_for_status,
)

from gramian.errors import HubProtocolError, HubUnavailable, InvalidWeights
from gramian.weights.hub_errors import CLIENT_ERRORS, explain

Token = str | Literal[False]  # False: anonymous, whatever the host itself is logged in as
Sink = Callable[[bytes], None]

MAX_WAIT_SECONDS = 60.0  # a longer wait is the queue's business
_FIRST_WAIT_SECONDS = 0.5
_MAX_HOPS = 5  # the Hub needs one, to its storage
_REDIRECT_BODY_BYTES = 2**16

_CONTENT_RANGE = re.compile(r"bytes (\d{1,19})-(\d{1,19})/(\d{1,19})")


@dataclass(frozen=True)
class _Version:
    """What must not change between two reads of one file."""

    total: int
    validator: str


class HubFiles:
    """The files of `model_id` at `commit`. Counts every body byte it reads."""

    def __init__(
        self, model_id: str, commit: str, *, endpoint: str, token: Token, timeout: float = 30.0, attempts: int = 4
    ) -> None:
        self.model_id = model_id
        self.commit = commit
        self.endpoint = endpoint.rstrip("/")
        self.timeout = timeout
        self.attempts = attempts
        self.bytes_fetched = 0
        self._versions: dict[str, _Version] = {}
        _keep_queries_out_of_logs()
        self._headers = build_hf_headers(token=token, library_name="gramian", headers={"Accept-Encoding": "identity"})

    def listing(self, *, limit: int) -> bytes:
        """The model's description at the commit as JSON, with all file names under `siblings`."""
        url = f"{self.endpoint}/api/models/{self.model_id}/revision/{self.commit}"
        return self._whole(url, None, limit)

    def whole(self, file: str, *, limit: int) -> bytes:
        """A small file; InvalidWeights once it turns out larger than `limit` bytes."""
        return self._whole(self._url(file), file, limit)

    def size(self, file: str) -> int:
        """Length of a file that was read from before."""
        return self._versions[file].total

    def range(self, file: str, start: int, stop: int, sink: Sink) -> None:
        """Hand the bytes [start, stop) of the file to `sink` in order; a broken transfer goes on where it stopped."""
        url, reached = self._url(file), start
        for attempt in self._attempts():
            with attempt:
                for chunk in self._range(url, file, reached, stop):
                    sink(chunk)
                    reached += len(chunk)
                return

    def _url(self, file: str) -> str:
        return hf_hub_url(self.model_id, file, revision=self.commit, endpoint=self.endpoint)

    def _attempts(self) -> Iterator[stamina.Attempt]:
        return iter(
            stamina.retry_context(
                on=_worth_another_try,
                attempts=self.attempts,
                timeout=None,  # bounded by the number of attempts and by MAX_WAIT_SECONDS
                wait_initial=_FIRST_WAIT_SECONDS,
                wait_max=MAX_WAIT_SECONDS,
                wait_jitter=_FIRST_WAIT_SECONDS,
            )
        )

    def _whole(self, url: str, file: str | None, limit: int) -> bytes:
        what = file or "the Hub's description of the model"
        for attempt in self._attempts():
            with attempt, self._open(url, file) as (response, _):
                if response.status_code != 200:
                    raise HubProtocolError(f"the Hub answered a request for {what} with status {response.status_code}")
                self._check_plain(response, what)
                body = bytearray()
                for chunk in response.iter_raw():
                    self.bytes_fetched += len(chunk)
                    body += chunk
                    if len(body) > limit:
                        raise InvalidWeights(f"{what} is larger than the {limit:,} bytes accepted")
                return bytes(body)
        raise AssertionError("unreachable: the last attempt raises")

    def _range(self, url: str, file: str, start: int, stop: int) -> Iterator[bytes]:
        with self._open(url, file, {"Range": f"bytes={start}-{stop - 1}"}) as (response, linked):
            self._check_range(response, linked, file, start, stop)
            left = stop - start
            for chunk in response.iter_raw():  # as it arrives: what came before a break is kept
                self.bytes_fetched += len(chunk)
                if len(chunk) > left:
                    raise HubProtocolError(f"the Hub sent more bytes of {file} than the {stop - start:,} asked for")
                left -= len(chunk)
                yield chunk
            if left:
                raise HubUnavailable(
                    f"the Hub ended a transfer of {file} {left:,} bytes early", hint="try again in a minute"
                )

    def _check_range(self, response: httpx2.Response, linked: str | None, file: str, start: int, stop: int) -> None:
        status = response.status_code
        if status == 416:
            raise _too_short(file, stop)
        if status != 206:
            raise HubProtocolError(
                f"asked for bytes {start:,} to {stop - 1:,} of {file}, the Hub answered with status {status} "
                "instead of 206 (partial content)",
                hint="the endpoint, or a proxy before it, must support byte ranges",
            )
        self._check_plain(response, file)
        given = response.headers.get("Content-Range", "")
        match = _CONTENT_RANGE.fullmatch(given)
        if match is not None and int(match[3]) < stop:
            raise _too_short(file, stop)
        if match is None or (int(match[1]), int(match[2]) + 1) != (start, stop):
            raise HubProtocolError(
                f"asked for bytes {start:,} to {stop - 1:,} of {file}, the answer has Content-Range {given[:80]!r}"
            )
        length = response.headers.get("Content-Length")
        if length is not None and length != str(stop - start):
            raise HubProtocolError(f"asked for {stop - start:,} bytes of {file}, the Hub announces {length[:20]}")
        self._check_version(file, _Version(int(match[3]), _strong_validator(response, linked, file)))

    def _check_version(self, file: str, version: _Version) -> None:
        before = self._versions.setdefault(file, version)
        if before != version:
            what = "length" if before.total != version.total else "entity tag"
            raise HubProtocolError(
                f"the {what} of {file} changed between two reads of one commit",
                hint="the endpoint serves different files for one commit; try again, or ask who runs it",
            )

    def _check_plain(self, response: httpx2.Response, what: str) -> None:
        encoding = response.headers.get("Content-Encoding", "identity").strip().lower()
        if encoding != "identity":
            raise HubProtocolError(f"the Hub sent {what} with content encoding {encoding[:40]!r}, unasked")

    @contextmanager
    def _open(
        self, url: str, file: str | None, headers: dict[str, str] | None = None
    ) -> Iterator[tuple[httpx2.Response, str | None]]:
        """A streamed answer after redirects, with the linked file's tag if a redirect named it; errors explained."""
        try:
            with self._follow(url, headers or {}) as answer:
                yield answer
        except CLIENT_ERRORS as error:
            raise explain(error, model_id=self.model_id, revision=self.commit, file=file) from None

    @contextmanager
    def _follow(self, url: str, headers: dict[str, str]) -> Iterator[tuple[httpx2.Response, str | None]]:
        client = get_session()
        request = client.build_request("GET", url, headers={**self._headers, **headers}, timeout=self.timeout)
        linked: str | None = None
        for hop in range(_MAX_HOPS):
            response = client.send(request, stream=True, follow_redirects=False)
            try:
                self._check_commit(response)
                linked = linked or response.headers.get("X-Linked-Etag")
                if response.next_request is None:
                    _raise_for_status(response, redirected=hop > 0)
                    yield response, linked
                    return
                request = self._next_hop(response)
                self._drain(response)
            finally:
                response.close()
        raise HubProtocolError(f"the Hub redirected more than {_MAX_HOPS} times")

    def _next_hop(self, response: httpx2.Response) -> httpx2.Request:
        onward = response.next_request
        if onward is None:
            raise AssertionError("called for redirects only")
        if response.request.url.scheme == "https" and onward.url.scheme != "https":
            raise HubProtocolError("the Hub redirected from https to an unencrypted address")
        return onward  # the client has dropped Authorization if the origin changed

    def _drain(self, response: httpx2.Response) -> None:
        """Read a redirect's short body, so that the connection can be used again."""
        if int(response.headers.get("Content-Length", _REDIRECT_BODY_BYTES)) < _REDIRECT_BODY_BYTES:
            self.bytes_fetched += sum(len(chunk) for chunk in response.iter_raw())

    def _check_commit(self, response: httpx2.Response) -> None:
        served = response.headers.get("X-Repo-Commit", self.commit)
        if not response.is_error and served != self.commit:
            raise HubProtocolError(f"asked for commit {self.commit}, the Hub served {served[:40]!r}")


class _WithoutQueries(logging.Filter):
    """Cuts the query off every address in a record: the ones that the Hub redirects to are signed there."""

    def filter(self, record: logging.LogRecord) -> bool:
        if isinstance(record.args, tuple):
            record.args = tuple(
                arg.copy_with(query=None) if isinstance(arg, httpx2.URL) else arg for arg in record.args
            )
        return True


_WITHOUT_QUERIES = _WithoutQueries()


def _keep_queries_out_of_logs() -> None:
    logging.getLogger("httpx2").addFilter(_WITHOUT_QUERIES)  # adding it again changes nothing


def _raise_for_status(response: httpx2.Response, *, redirected: bool) -> None:
    """The client's own reading of an error answer, from its headers alone: error bodies have no bound."""
    if response.is_error and response.status_code != 416:
        headers = {name: value for name, value in response.headers.items() if name.lower() not in _BODY_HEADERS}
        facts: dict[str, Any] = {"redirected": redirected}
        hf_raise_for_status(
            httpx2.Response(response.status_code, headers=headers, request=response.request, extensions=facts)
        )


_BODY_HEADERS = frozenset({"content-encoding", "content-length", "transfer-encoding"})


def _too_short(file: str, stop: int) -> InvalidWeights:
    return InvalidWeights(
        f"{file} is shorter than the {stop:,} bytes that it must have at least: it is truncated or empty",
        hint="the repository holds a broken file; choose another revision",
    )


def _strong_validator(response: httpx2.Response, linked: str | None, file: str) -> str:
    """The entity tag that names the file's content; a weak one may stay when bytes change."""
    tag = linked or response.headers.get("ETag", "")
    if not tag or tag.startswith("W/"):
        raise HubProtocolError(
            f"the Hub sent {file} without a strong entity tag, so that two reads cannot be known to be of one file",
            hint="the endpoint, or a proxy before it, must pass ETag or X-Linked-Etag on",
        )
    return str(tag)


def _worth_another_try(error: Exception) -> bool | float:
    if not isinstance(error, HubUnavailable) or not error.transient:
        return False
    if error.retry_after is None:
        return True
    return error.retry_after if error.retry_after <= MAX_WAIT_SECONDS else False
