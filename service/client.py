"""The command line's side of the HTTP API: find or start a service, ask, show progress, print the numbers."""

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx2
from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, ProgressColumn, TextColumn, TimeElapsedColumn
from rich.table import Table

from gramian.settings import Settings
from service.instance import environment, running_service

CHUNK_BYTES = 1024**2
POLL_SECONDS = 0.2
START_SECONDS = 60
STOP_SECONDS = 60


class ClientError(Exception):
    """Something to tell the person at the terminal."""

    def __init__(self, message: str, *, exit_code: int = 1) -> None:
        super().__init__(message)
        self.exit_code = exit_code


@dataclass(frozen=True)
class Question:
    """What the command line was asked: a model id, or something on this disk."""

    source: str
    revision: str = "main"
    input_tensor: str | None = None
    output_tensor: str | None = None
    pairs: str = "none"
    exclude: tuple[str, ...] = ()
    token_names: bool = False

    @property
    def path(self) -> Path | None:
        """The file or folder meant, if the source looks like or is one."""
        path = Path(self.source).expanduser()
        if path.exists():
            return path.resolve()
        if self.source.startswith((".", "/", "~")) or path.suffix in (".safetensors", ".npy"):
            raise ClientError(f"there is no file or folder {self.source}", exit_code=2)
        return None


class Session:
    """A conversation with one service."""

    def __init__(self, http: httpx2.Client, *, restart_command: str | None = None) -> None:
        self.http = http
        self.restart_command = restart_command  # how to see the results again, once this service has stopped
        self.console = Console(stderr=True)

    def analyse(self, question: Question) -> dict[str, Any]:
        """Ask, wait for the end, and return the analysis."""
        body: dict[str, Any] = {"kind": "embedding", "source": self._source(question)}
        names = {"input": question.input_tensor, "output": question.output_tensor}
        if any(names.values()):
            body["tensors"] = {side: name for side, name in names.items() if name}
        if question.pairs != "none":
            body["pairs"] = {"mode": question.pairs}
        if question.exclude:
            body["rows"] = {"exclude": question.exclude}
        if question.token_names:
            body["token_names"] = True
        analysis = self._checked(self.http.post("/v1/analyses", json=body))
        with self._progress(TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn()) as progress:
            task = progress.add_task("queued", total=1.0)
            said = None
            while analysis["status"] in ("queued", "running"):
                found = analysis["progress"]
                words = found["message"] or found["stage"] or analysis["status"]
                progress.update(task, description=words, completed=found["fraction"] or 0.0)
                if words != said:
                    said = words
                    self._say(words)
                time.sleep(POLL_SECONDS)
                analysis = self._checked(self.http.get(f"/v1/analyses/{analysis['id']}"))
        self._say(analysis["status"])
        return analysis

    def where(self, analysis: dict[str, Any]) -> str:
        """Where the numbers can be seen again."""
        path = f"/v1/analyses/{analysis['id']}"
        if self.restart_command is None:
            return f"{self.http.base_url}".rstrip("/") + path
        return f"{self.restart_command}   then   http://127.0.0.1:8000{path}"

    def _progress(self, *columns: ProgressColumn) -> Progress:
        return Progress(*columns, console=self.console, transient=True, disable=not self.console.is_terminal)

    def _say(self, words: str) -> None:
        """A line where there is no terminal to draw a bar on."""
        if not self.console.is_terminal:
            self.console.print(words, highlight=False, soft_wrap=True)

    def _source(self, question: Question) -> dict[str, str]:
        path = question.path
        if path is None:
            return {"type": "hub", "model_id": question.source, "revision": question.revision}
        if path.is_dir():
            return {"type": "path", "path": "."}
        return {"type": "upload", "upload_id": self._upload(path)["id"]}

    def _upload(self, path: Path) -> dict[str, Any]:
        size = path.stat().st_size
        self._say(f"uploading {path.name}, {size / 1e6:,.1f} MB")
        with self._progress(TextColumn("uploading"), BarColumn(), DownloadColumn()) as progress:
            task = progress.add_task("upload", total=size)

            def chunks() -> Iterator[bytes]:
                with path.open("rb") as file:
                    while chunk := file.read(CHUNK_BYTES):
                        progress.advance(task, len(chunk))
                        yield chunk

            headers = {"Content-Length": str(size), "Content-Type": "application/octet-stream"}
            answer = self.http.post(
                "/v1/uploads", params={"filename": path.name}, content=chunks(), headers=headers, timeout=None
            )
        return self._checked(answer)

    @staticmethod
    def _checked(answer: httpx2.Response) -> dict[str, Any]:
        try:
            found: dict[str, Any] = answer.json()
        except ValueError:
            raise ClientError(f"{answer.url} answered {answer.status_code}, not as Gramian does", exit_code=3) from None
        if answer.is_error:
            hint = f"\n  {found['hint']}" if found.get("hint") else ""
            raise ClientError(f"{found.get('detail', answer.status_code)}{hint}")
        return found


@contextmanager
def service_for(question: Question, *, url: str | None, settings: Settings) -> Iterator[Session]:
    """A session with the service at `url`, with the one that owns the data folder, or with one started for it."""
    path = question.path
    folder = path if path is not None and path.is_dir() else None
    running = None if url else running_service(settings.data_dir)
    if folder and (url or running):
        raise ClientError(
            "a folder is read in place by a service of its own; leave --url out and choose another --data-dir, "
            'or ask the running service for {"type": "path"} below its GRAMIAN_PATH_ROOT',
            exit_code=2,
        )
    if url or running:
        with _client(url or running or "") as http:
            yield _reachable(Session(http))
        return
    Console(stderr=True).print("starting the service", highlight=False)
    with _started(settings, root=folder) as address, _client(address) as http:
        yield Session(http, restart_command=f"gramian serve --data-dir {settings.data_dir}")


def _client(url: str) -> httpx2.Client:
    loopback = httpx2.URL(url).host in ("127.0.0.1", "::1", "localhost")
    key = os.environ.get("GRAMIAN_API_KEY")
    headers = {"Authorization": f"Bearer {key}"} if key else {}
    return httpx2.Client(base_url=url, headers=headers, timeout=httpx2.Timeout(90.0), trust_env=not loopback)


def _reachable(session: Session) -> Session:
    try:
        session.http.get("/livez")
    except httpx2.TransportError as error:
        raise ClientError(f"no service answers at {session.http.base_url}: {error}", exit_code=3) from None
    return session


@contextmanager
def _started(settings: Settings, *, root: Path | None) -> Iterator[str]:
    """Run `gramian serve` on a free port for as long as the block lasts."""
    environ = environment(settings) | {"GRAMIAN_PORT": "0", "GRAMIAN_HOST": "127.0.0.1", "GRAMIAN_LOG_LEVEL": "WARNING"}
    if root:
        environ["GRAMIAN_PATH_ROOT"] = str(root)
    with tempfile.TemporaryFile() as output:
        process = subprocess.Popen(
            [sys.executable, "-m", "service", "serve"],
            env=environ,
            stdout=output,
            stderr=output,
            start_new_session=True,
        )
        try:
            yield _address(process, settings.data_dir)
        except ServiceEnded:
            output.seek(0)
            words = output.read().decode(errors="replace").strip()
            raise ClientError(f"the service did not start:\n{words}", exit_code=3) from None
        finally:
            process.terminate()
            process.wait(timeout=STOP_SECONDS)


class ServiceEnded(Exception):
    """The service that was started is gone before it answered."""


def _address(process: subprocess.Popen[bytes], data_dir: Path) -> str:
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline and process.poll() is None:
        url = running_service(data_dir)
        if url:
            try:
                with _client(url) as http:
                    if http.get("/readyz").status_code == httpx2.codes.OK:
                        return url
            except httpx2.TransportError:
                pass
        time.sleep(0.05)
    raise ServiceEnded


def show(analysis: dict[str, Any], *, where: str) -> None:
    """Print the numbers as people read them."""
    console = Console()
    if analysis["status"] != "succeeded":
        problem = analysis["error"] or {}
        console.print(f"[bold red]{analysis['status']}[/]: {problem.get('detail', '')}", highlight=False)
        if problem.get("hint"):
            console.print(f"  {problem['hint']}", highlight=False)
        return
    for matrix in analysis["result"]["matrices"]:
        console.print(_table(matrix))
    tying = analysis["result"]["tying"]
    console.print(f"tying: {tying['finding']} ({tying['reason']})", highlight=False)
    for warning in analysis["result"]["warnings"]:
        console.print(f"[yellow]{warning['code']}[/]: {warning['message']}", highlight=False)
    provenance = analysis["provenance"]
    seconds = sum((provenance["seconds"] or {}).values())
    known = " (known already)" if analysis["deduplicated"] else ""
    console.print(
        f"method {provenance['method_version']}, gramian {provenance['gramian_version']}, torch {provenance['torch']} "
        f"on {provenance['device']}, {seconds:.2f} s{known}",
        highlight=False,
    )
    console.print(f"[bold]see it again:[/] {where}", highlight=False, soft_wrap=True)


def _table(matrix: dict[str, Any]) -> Table:
    table = Table(title=f"{matrix['role'].replace('_', ' ')}: {matrix['tensor']}", title_justify="left")
    table.add_column("quantity")
    table.add_column("value", justify="right")
    table.add_column("what it says")
    epsilon, capacity, overlap = matrix["epsilon"], matrix["capacity"], matrix["superposition"]
    error = epsilon["standard_error"]
    spread = f" ± {error:.2g}" if error is not None else ""
    excluded = ", ".join(f"{count} {why}" for why, count in matrix["rows_excluded"].items() if count) or "none left out"
    rows = [
        ("rows × dimensions", f"{matrix['rows_used']:,} × {matrix['dim']:,}", f"{matrix['dtype']}, {excluded}"),
        ("ε", f"{epsilon['value']:.7f}{spread}", f"{epsilon['excess']:.2f} times random rows' {epsilon['random']:.4f}"),
        ("class", matrix["class"], "low below 0.1, high above 0.2"),
        ("mean cosine", f"{matrix['cosine']['mean']:.6f}", f"over {matrix['cosine']['pairs']:,} pairs, exactly"),
        ("standard deviation", f"{matrix['cosine']['std']:.6f}", ""),
        *_pair_rows(matrix["cosine"]),
        ("capacity", *_capacity_words(capacity)),
        *_our_rows(capacity),
        ("proven", *_bounds_words(capacity)),
        (
            "mean squared overlap",
            f"{overlap['mean_squared_overlap']:.6f}",
            f"{overlap['overlap_times_dim']:.2f}/d; the Welch floor is {overlap['welch_floor']:.6f}",
        ),
        ("effective rank", f"{overlap['effective_rank']:.1f}", f"of {matrix['dim']} dimensions"),
        ("represented", f"{overlap['represented_fraction']:.1%}", "rows with a norm above half the median"),
        ("feature dimensionality", f"{overlap['feature_dimensionality']:.5f}", "dimensions a row has to itself, mean"),
        ("regime", overlap["regime"], "of superposition"),
    ]
    for row in rows:
        table.add_row(*row)
    return table


def _pair_rows(cosine: dict[str, Any]) -> list[tuple[str, str, str]]:
    """Of the pairs themselves, if any were looked at; services of older versions look at none."""
    if not cosine.get("pairs_seen"):
        return []
    median = next(quantile["cosine"] for quantile in cosine["quantiles"] if quantile["level"] == 0.5)
    seen = "all pairs" if cosine["mode"] == "exact" else f"{cosine['pairs_seen']:,} random pairs"
    return [
        ("cosines", f"{cosine['min']:.4f} … {cosine['max']:.4f}", f"of {seen}; the median is {median:.4f}"),
        ("mean |cosine|", f"{cosine['mean_abs']:.6f}", f"of {seen}"),
    ]


def _capacity_words(capacity: dict[str, Any]) -> tuple[str, str]:
    if capacity["status"] != "estimated":
        return "indeterminate", capacity["reason"] or ""
    low, high = capacity["interval_log10"] or (None, None)
    interval = f"10^{low:.2f} … 10^{high:.2f} by the errors of ε and fit; " if low is not None else ""
    return f"10^{capacity['log10_directions']:.2f}", f"{interval}reachable by descent (published fit), no upper bound"


def _our_rows(capacity: dict[str, Any]) -> list[tuple[str, str, str]]:
    """Our own estimate beside the published one; services of older versions have none."""
    ours = capacity.get("ours")
    if not ours or capacity["status"] != "estimated":
        return []
    number = f"10^{ours['log10_directions']:.2f} ± {ours['log10_se']:.2f}"
    return [("by our packings", number, "the same question, asked of closer packings; extrapolated as well")]


def _bounds_words(capacity: dict[str, Any]) -> tuple[str, str]:
    """What certainly exists and what cannot, and where the estimate lies; analyses of older versions have neither."""
    bounds = capacity.get("bounds") or {}
    if bounds.get("exists_log10") is None:
        return "", "no bounds"
    position = capacity["position"]
    between = f"10^{bounds['exists_log10']:.2f} … 10^{bounds['upper_lines_log10']:.2f}"
    return between, position["words"] if position else "directions that certainly exist, and that none exceeds"
