"""What may go wrong on the loopback Hub, and what it was asked."""

from dataclasses import dataclass


@dataclass
class Faults:
    """What goes wrong. All off by default."""

    gated: bool = False
    disabled: bool = False
    bare_401: bool = False  # 401 without X-Error-Code, as an http:// endpoint gives it
    bad_token: bool = False  # 401 that blames the token
    status: int | None = None  # every file request fails with this status …
    api_status: int | None = None  # … or every API request with this one …
    times: int | None = None  # … this often, then it works (None: always)
    retry_after: str | None = None  # sent with `status` and `api_status`
    ratelimit: str | None = None  # the RateLimit header
    ignore_range: bool = False  # 200 and the whole file
    content_range: str | None = None  # "shifted", "short", "unknown_total", "growing_total", "missing"
    truncate: int | None = None  # bodies of more bytes than this end there, without a word
    truncate_times: int | None = None
    short: bool = False  # the announced length is one byte less than asked for
    etag: str | None = None  # "changing", "weak", "missing"
    wrong_commit: bool = False
    gzip_label: bool = False  # Content-Encoding: gzip
    redirect: bool = False  # large files come from the storage server, another origin
    redirect_loop: bool = False
    storage_status: int | None = None
    delay_seconds: float = 0.0
    chunk_seconds: float = 0.0  # a pause after every chunk of a body, which makes a job long and costs nothing
    api_body: str | None = None  # the API answers 200 with this


@dataclass
class Asked:
    """One request as it arrived, and what was sent back."""

    server: str  # "hub" or "storage"
    method: str
    path: str
    headers: dict[str, str]
    status: int = 0
    body_bytes: int = 0
