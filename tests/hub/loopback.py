"""A model hub on 127.0.0.1 for tests: enough of the real one for its own client, with faults that can be switched on.

In a test, as a thread of its own; other processes reach it under `.endpoint`::

    with LoopbackHub() as hub:
        commit = hub.add_model("acme/tiny", {"config.json": b"{}", "model.safetensors": blob})
        hub.faults.ignore_range = True
        ...
        assert hub.body_bytes < 1000

As a process, serving the folders DIR/<owner>/<name>/ and printing its endpoint::

    python -m tests.hub.loopback DIR [--port 8000]

Over HTTP, `GET /_control/requests` answers with what was asked so far, `POST /_control/faults` takes the fields of
`Faults` as JSON, and `POST /_control/reset` forgets both.
"""

import argparse
import asyncio
import hashlib
import sys
from collections.abc import AsyncIterator, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Self
from urllib.parse import unquote

from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response, StreamingResponse
from starlette.types import Receive, Scope, Send

from tests.hub.faults import Asked, Faults
from tests.hub.serving import Server

Content = bytes | Path

CHUNK = 64 * 1024
LARGE = 1024  # files from this size on are redirected to the storage server, as the real Hub does with LFS files
SIGNATURE = "planted-signature-9f2c"  # stands in signed addresses; no log and no message may repeat it


@dataclass
class _Model:
    commits: dict[str, dict[str, Content]] = field(default_factory=dict)
    branches: dict[str, str] = field(default_factory=dict)


class LoopbackHub:
    """Two servers on two ports: the hub itself, and the storage that it redirects to."""

    def __init__(self, *, port: int = 0) -> None:
        self.faults = Faults()
        self.requests: list[Asked] = []
        self.tokens: set[str] = set()  # where not empty, every model needs one of them
        self._models: dict[str, _Model] = {}
        self._stored: dict[str, Content] = {}
        self._digests: dict[Path, str] = {}
        self._reads = 0
        self._hub = Server(self._app("hub"), port)
        self._storage = Server(self._app("storage"), 0)

    # -- life -------------------------------------------------------------------------------------------------

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def start(self) -> None:
        self._storage.start()
        self._hub.start()

    def stop(self) -> None:
        self._hub.stop()
        self._storage.stop()

    @property
    def endpoint(self) -> str:
        return self._hub.origin

    @property
    def storage_origin(self) -> str:
        return self._storage.origin

    # -- content ----------------------------------------------------------------------------------------------

    def add_model(self, model_id: str, files: Mapping[str, Content], *, revision: str = "main") -> str:
        """Create a model, or replace all files of a branch; returns the commit."""
        model = self._models.setdefault(model_id, _Model())
        parent = model.branches.get(revision, "")
        names = "".join(f"{name}:{self._digest(content)}\n" for name, content in sorted(files.items()))
        commit = hashlib.sha1(f"{model_id}\n{parent}\n{names}".encode(), usedforsecurity=False).hexdigest()
        model.commits[commit] = dict(files)
        model.branches[revision] = commit
        return commit

    def push(self, model_id: str, files: Mapping[str, Content | None], *, revision: str = "main") -> str:
        """A new commit with some files changed, or removed where None; returns the commit."""
        model = self._models[model_id]
        before = model.commits[model.branches[revision]] if revision in model.branches else {}
        after = {name: content for name, content in {**before, **files}.items() if content is not None}
        return self.add_model(model_id, after, revision=revision)

    # -- what was asked ---------------------------------------------------------------------------------------

    @property
    def body_bytes(self) -> int:
        """Body bytes handed to the network, on both servers."""
        return sum(asked.body_bytes for asked in self.requests)

    def asked_for(self, part: str) -> list[Asked]:
        """Requests whose path contains `part`."""
        return [asked for asked in self.requests if part in asked.path]

    def reset(self) -> None:
        """Forget requests and faults; the models stay."""
        self.faults = Faults()
        self.requests.clear()

    # -- answers ----------------------------------------------------------------------------------------------

    def _app(self, server: str) -> Any:
        async def app(scope: Scope, receive: Receive, send: Send) -> None:
            request = Request(scope, receive)
            raw = scope.get("raw_path", scope["path"].encode()).decode()
            path = raw + ("?" + scope["query_string"].decode() if scope["query_string"] else "")
            asked = Asked(server, scope["method"], path, dict(request.headers))
            control = raw.startswith("/_control/")
            if not control:
                self.requests.append(asked)

            async def counted(message: Any) -> None:
                if message["type"] == "http.response.start":
                    asked.status = message["status"]
                else:
                    asked.body_bytes += len(message.get("body", b""))
                await send(message)

            if self.faults.delay_seconds and not control:
                await asyncio.sleep(self.faults.delay_seconds)
            parts = [unquote(part) for part in raw.strip("/").split("/")]
            if control:
                response = await self._control(parts[1], request)
            elif server == "storage":
                response = self._from_storage(parts, asked)
            elif parts[0] == "api":
                response = self._api(parts[2:], asked)
            else:
                response = self._resolve(parts, asked)
            await response(scope, receive, counted)

        return app

    async def _control(self, what: str, request: Request) -> Response:
        if what == "requests":
            return JSONResponse([asdict(asked) for asked in self.requests])
        if what == "faults":
            self.faults = Faults(**await request.json())
        if what == "reset":
            self.reset()
        return JSONResponse({"faults": asdict(self.faults)})

    def _api(self, parts: list[str], asked: Asked) -> Response:
        if self.faults.api_status is not None and self._strike():
            return self._failure(self.faults.api_status)
        if self.faults.api_body is not None:
            return PlainTextResponse(self.faults.api_body)
        at = next((i for i, part in enumerate(parts) if part in {"revision", "tree"}), len(parts))
        model_id, verb, revision = (
            "/".join(parts[:at]),
            "".join(parts[at : at + 1]),
            "/".join(parts[at + 1 :]) or "main",
        )
        found = self._find(model_id, revision, asked)
        if isinstance(found, Response):
            return found
        commit, files = found
        if verb == "tree":
            return JSONResponse([self._tree_entry(name, content) for name, content in sorted(files.items())])
        return JSONResponse(
            {
                "_id": "0",
                "id": model_id,
                "modelId": model_id,
                "sha": commit,
                "private": False,
                "gated": False,
                "disabled": False,
                "tags": [],
                "downloads": 0,
                "likes": 0,
                "siblings": [{"rfilename": name} for name in sorted(files)],
            }
        )

    def _resolve(self, parts: list[str], asked: Asked) -> Response:
        if "resolve" not in parts:
            return PlainTextResponse("<html>no such page</html>", 404)
        at = parts.index("resolve")
        model_id, revision, name = "/".join(parts[:at]), parts[at + 1], "/".join(parts[at + 2 :])
        if self.faults.status is not None and self._strike():
            return self._failure(self.faults.status)
        found = self._find(model_id, revision, asked)
        if isinstance(found, Response):
            return found
        commit, files = found
        if name not in files:
            return _refusal(404, "EntryNotFound", "Entry not found", commit=commit)
        headers = {"X-Repo-Commit": "0" * 40 if self.faults.wrong_commit else commit}
        if self.faults.redirect_loop:
            return Response(status_code=302, headers={**headers, "Location": asked.path})
        return self._file(files[name], asked, headers)

    def _file(self, content: Content, asked: Asked, headers: dict[str, str]) -> Response:
        digest = self._digest(content)
        if not self.faults.redirect or _size(content) < LARGE:
            return self._send(content, digest, asked, headers)
        self._stored[digest] = content
        headers |= {
            "Location": f"{self.storage_origin}/{digest}?X-Amz-Signature={SIGNATURE}",
            "X-Linked-Size": str(_size(content)),
            **self._etag(digest, linked=True),
        }
        return PlainTextResponse("Found. Redirecting", 302, headers=headers)

    def _from_storage(self, parts: list[str], asked: Asked) -> Response:
        if self.faults.storage_status is not None and self._strike():
            return PlainTextResponse("AccessDenied", self.faults.storage_status)
        if parts[0].split("?")[0] not in self._stored:
            return PlainTextResponse("NoSuchKey", 404)
        return self._send(self._stored[parts[0]], parts[0], asked, {})

    def _find(self, model_id: str, revision: str, asked: Asked) -> Response | tuple[str, dict[str, Content]]:
        denied = self._denied(asked)
        if denied is not None:
            return denied
        model = self._models.get(model_id)
        if model is None:
            return _refusal(404, "RepoNotFound", "Repository not found")
        commit = model.branches.get(revision, revision)
        if commit not in model.commits:
            return _refusal(404, "RevisionNotFound", f"Invalid rev id: {revision}")
        return commit, model.commits[commit]

    def _denied(self, asked: Asked) -> Response | None:
        token = asked.headers.get("authorization", "").removeprefix("Bearer ")
        table = (
            (self.faults.gated, 403, "GatedRepo", "Access to this model is restricted."),
            (self.faults.disabled, 403, None, "Access to this resource is disabled."),
            (self.faults.bare_401, 401, None, "Invalid username or password."),
            (self.faults.bad_token, 401, None, "Invalid credentials in Authorization header"),
            (bool(self.tokens) and token not in self.tokens, 401, "RepoNotFound", "Repository not found"),
        )
        return next((_refusal(status, code, message) for on, status, code, message in table if on), None)

    def _send(self, content: Content, digest: str, asked: Asked, headers: dict[str, str]) -> Response:
        total = _size(content)
        headers = {**headers, "Accept-Ranges": "bytes", **self._etag(digest, linked=False)}
        if self.faults.gzip_label:
            headers["Content-Encoding"] = "gzip"
        wanted = asked.headers.get("range")
        start, stop, status = 0, total, 200
        if wanted and not self.faults.ignore_range:
            first, _, last = wanted.removeprefix("bytes=").partition("-")
            start, stop, status = int(first), min(int(last) + 1 if last else total, total), 206
            if start >= total:
                return Response(status_code=416, headers={"Content-Range": f"bytes */{total}"})
            if self.faults.short:
                stop -= 1
            headers |= self._content_range(start, stop, total)
        headers["Content-Length"] = str(stop - start)
        if asked.method == "HEAD":
            return Response(status_code=status, headers=headers)
        return StreamingResponse(self._body(content, start, stop), status, headers, "application/octet-stream")

    async def _body(self, content: Content, start: int, stop: int) -> AsyncIterator[bytes]:
        limit = self.faults.truncate
        cut = (
            limit is not None
            and stop - start > limit
            and (self.faults.truncate_times is None or self._truncate_strike())
        )
        end = start + limit if cut and limit is not None else stop
        with content.open("rb") if isinstance(content, Path) else memoryview(content) as source:
            while start < end:
                step = min(CHUNK, end - start)
                if isinstance(source, memoryview):
                    chunk = bytes(source[start : start + step])
                else:
                    source.seek(start)
                    chunk = source.read(step)
                yield chunk
                await asyncio.sleep(0)  # sending to a client that has gone waits for nothing: let that be noticed
                start += step
                if self.faults.chunk_seconds and start < end:
                    await asyncio.sleep(self.faults.chunk_seconds)
        if cut:
            raise ConnectionResetError("the fault `truncate` ends the connection")

    def _content_range(self, start: int, stop: int, total: int) -> dict[str, str]:
        self._reads += 1
        match self.faults.content_range:
            case "shifted":
                start, stop = start + 1, stop + 1
            case "short":
                stop -= 1
            case "growing_total":
                total += self._reads
            case "unknown_total":
                return {"Content-Range": f"bytes {start}-{stop - 1}/*"}
            case "missing":
                return {}
        return {"Content-Range": f"bytes {start}-{stop - 1}/{total}"}

    def _etag(self, digest: str, *, linked: bool) -> dict[str, str]:
        name = "X-Linked-Etag" if linked else "ETag"
        match self.faults.etag:
            case "changing":
                return {name: f'"{digest}-{len(self.requests)}"'}
            case "weak":
                return {name: f'W/"{digest}"'}
            case "missing":
                return {}
        return {name: f'"{digest}"'}

    def _tree_entry(self, name: str, content: Content) -> dict[str, Any]:
        return {"type": "file", "path": name, "size": _size(content), "oid": self._digest(content)[:40]}

    def _digest(self, content: Content) -> str:
        if isinstance(content, bytes):
            return hashlib.sha256(content).hexdigest()
        if content not in self._digests:
            with content.open("rb") as file:
                self._digests[content] = hashlib.file_digest(file, "sha256").hexdigest()
        return self._digests[content]

    def _failure(self, status: int) -> Response:
        headers = {}
        if self.faults.retry_after is not None:
            headers["Retry-After"] = self.faults.retry_after
        if self.faults.ratelimit is not None:
            headers["RateLimit"] = self.faults.ratelimit
        return PlainTextResponse("out of order", status, headers)

    def _strike(self) -> bool:
        if self.faults.times is None:
            return True
        self.faults.times -= 1
        return self.faults.times >= 0

    def _truncate_strike(self) -> bool:
        assert self.faults.truncate_times is not None
        self.faults.truncate_times -= 1
        return self.faults.truncate_times >= 0


def _refusal(status: int, code: str | None, message: str, *, commit: str | None = None) -> Response:
    headers = {"X-Error-Message": message}
    if code is not None:
        headers["X-Error-Code"] = code
    if commit is not None:
        headers["X-Repo-Commit"] = commit
    return JSONResponse({"error": message}, status, headers)


def _size(content: Content) -> int:
    return len(content) if isinstance(content, bytes) else content.stat().st_size


def models_under(folder: Path) -> dict[str, dict[str, Content]]:
    """Models from folders <owner>/<name>/, with their files."""
    return {
        f"{model.parent.name}/{model.name}": {
            path.relative_to(model).as_posix(): path for path in sorted(model.rglob("*")) if path.is_file()
        }
        for model in sorted(folder.glob("*/*"))
        if model.is_dir()
    }


def main() -> None:
    parser = argparse.ArgumentParser(description="Serve model folders as a model hub on 127.0.0.1.")
    parser.add_argument("folder", type=Path, help="holds <owner>/<name>/ folders")
    parser.add_argument("--port", type=int, default=0)
    options = parser.parse_args()
    with LoopbackHub(port=options.port) as hub:
        for model_id, files in models_under(options.folder).items():
            hub.add_model(model_id, files)
        print(hub.endpoint, flush=True)
        sys.stdin.read()  # until whoever started this closes the pipe


__all__ = ["SIGNATURE", "Asked", "Content", "Faults", "LoopbackHub", "models_under"]

if __name__ == "__main__":
    main()
