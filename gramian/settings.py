"""Every setting of the service, read once from `GRAMIAN_*` variables, frozen, and passed in."""

import ipaddress
import math
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Literal

import platformdirs
from pydantic import AliasChoices, Field, SecretStr, ValidationInfo, field_validator
from pydantic_settings import BaseSettings, SettingsConfigDict

from gramian import webhooks
from gramian.limits import Limits
from gramian.sealing import key_in

MIB = 1024**2
GIB = 1024**3

Network = ipaddress.IPv4Network | ipaddress.IPv6Network


class Settings(BaseSettings):
    """What an operator may change. Units are in the names; defaults suit one person on one machine."""

    model_config = SettingsConfigDict(env_prefix="GRAMIAN_", frozen=True, extra="ignore", populate_by_name=True)

    data_dir: Path = Field(
        default_factory=lambda: Path(platformdirs.user_data_dir("gramian")),
        description="Folder for uploads, fetched tensors and, by default, the database.",
    )
    database_url: str | None = Field(
        None,
        repr=False,
        description="SQLAlchemy URL (postgresql://… or sqlite:///…). Unset: SQLite in the data folder.",
    )
    redis_url: str | None = Field(
        None,
        repr=False,
        description="Redis or Valkey URL. Unset: `gramian serve` runs the bundled Valkey on a unix socket.",
    )
    host: str = Field("127.0.0.1", description="Address that `gramian serve` binds.")
    port: int = Field(8000, ge=0, le=65535, description="Port that `gramian serve` binds; 0 takes a free one.")
    require_keys: bool | None = Field(
        None,
        description="Whether requests need an access key. Unset: on every address but loopback.",
    )
    open_network: bool = Field(
        False,
        description="Serve another address than loopback without keys, so that anyone who reaches it may do anything.",
    )
    anonymous_read: bool = Field(False, description="Where keys are required: permit reading without one.")
    path_root: Path | None = Field(
        None, description='Folder whose files may be analysed as {"type": "path"}. Unset: path sources are refused.'
    )
    hf_endpoint: str = Field(
        "https://huggingface.co",
        validation_alias=AliasChoices("hf_endpoint", "GRAMIAN_HF_ENDPOINT", "HF_ENDPOINT"),
        description="The model hub. HF_ENDPOINT is honoured.",
    )
    hf_token: SecretStr | None = Field(
        None,
        validation_alias=AliasChoices("hf_token", "GRAMIAN_HF_TOKEN", "HF_TOKEN"),
        description="Token for gated and private models. HF_TOKEN is honoured.",
    )
    hub_timeout_seconds: float = Field(10.0, gt=0, description="Longest silence of the Hub that is waited for.")
    drain_seconds: float = Field(
        0.5, ge=0, description="How long `/readyz` says no before a stopping service closes its port."
    )
    upload_max_bytes: int = Field(64 * GIB, gt=0, description="Largest upload accepted.")
    upload_idle_seconds: float = Field(30.0, gt=0, description="An upload that sends nothing for so long is cut off.")
    disk_reserve_bytes: int = Field(
        GIB, ge=0, description="Free space that uploads and fetched tensors leave untouched."
    )
    job_timeout_seconds: int = Field(6 * 3600, gt=0, description="Longest run of one job.")
    lease_seconds: float = Field(30.0, gt=0, description="How long a silent worker keeps its claim on a job.")
    reconcile_seconds: float = Field(5.0, gt=0, description="Interval at which unseen and orphaned jobs are pushed.")
    max_deliveries: int = Field(3, ge=1, description="How often a job may take its process down before it fails.")
    max_failures: int = Field(
        5, ge=1, description="How often a job is tried when the Hub, the network or the disk fails it."
    )
    stall_seconds: float = Field(
        600.0, gt=0, description="A run that makes no progress for so long is ended and tried again as a failure."
    )
    stop_seconds: float = Field(
        15.0, ge=0, description="How long a stopping worker lets its job go on before it is given back to the queue."
    )
    device: str = Field(
        "auto",
        pattern=r"^(auto|cpu|cuda(:\d+)?)$",
        description="Where workers compute: auto, cpu, cuda, or cuda:N for one worker a GPU.",
    )
    log_level: Literal["DEBUG", "INFO", "WARNING", "ERROR"] = Field("INFO", description="Least severe line logged.")
    log_format: Literal["text", "json"] = Field(
        "text", description="How a log line is written; json: one object a line."
    )
    secret_key: SecretStr | None = Field(
        None,
        min_length=32,
        description="What seals stored secrets, the same for all processes. Unset: a file in the data folder.",
    )
    rate_limit_per_minute: int | None = Field(
        None, ge=1, description="Requests that a key may make a minute. Unset: as many as it likes."
    )
    quota_queued_jobs: int | None = Field(None, ge=1, description="Unfinished analyses that a key may have.")
    quota_upload_bytes_per_day: int | None = Field(None, ge=1, description="Bytes that a key may upload in 24 hours.")
    retain_analyses_days: float | None = Field(
        None, gt=0, description="Ended analyses are deleted so long after their end. Unset: never."
    )
    retain_uploads_days: float | None = Field(
        None, gt=0, description="Uploads are deleted after so long. Unset: never."
    )
    retain_audit_days: float = Field(365.0, gt=0, description="How long it is kept who did what.")
    hub_webhook_secret: SecretStr | None = Field(
        None, min_length=8, description="Secret of the Hub's webhooks, as typed in there. Unset: none are taken."
    )
    generic_hook_secret: SecretStr | None = Field(
        None, description="Secret that signs messages of other tools, as whsec_… Unset: none are taken."
    )
    webhook_allow: str = Field(
        "",
        description="Inner addresses and networks that webhooks may reach, as 10.0.0.0/8,127.0.0.1. Unset: none.",
    )
    webhook_schedule_seconds: str = Field(
        ",".join(f"{seconds:g}" for seconds in webhooks.SCHEDULE_SECONDS),
        description="Wait before each attempt to deliver a webhook, counted from the one before.",
    )
    webhook_pause_days: float = Field(
        5.0, gt=0, description="An endpoint whose every attempt fails for so long is paused."
    )
    retain_deliveries_days: float = Field(
        30.0, gt=0, description="How long the log of webhooks that were delivered or given up is kept."
    )
    metrics_host: str = Field("127.0.0.1", description="Address at which a worker serves its `/metrics`.")
    metrics_port: int | None = Field(
        None, ge=0, le=65535, description="Port of a worker's `/metrics`, 0 takes a free one. Unset: none is served."
    )

    @field_validator("generic_hook_secret")
    @classmethod
    def _must_sign(cls, secret: SecretStr | None) -> SecretStr | None:
        if secret is not None and not webhooks.is_secret(secret.get_secret_value()):
            raise ValueError("whsec_ and 24 to 64 random bytes in base64")
        return secret

    @field_validator("webhook_allow", "webhook_schedule_seconds")
    @classmethod
    def _must_be_readable(cls, text: str, field: ValidationInfo) -> str:
        _LISTS[field.field_name or ""](text)
        return text

    @property
    def limits(self) -> Limits:
        """Of a key that has none of its own."""
        return Limits(self.rate_limit_per_minute, self.quota_queued_jobs, self.quota_upload_bytes_per_day)

    @property
    def webhook_networks(self) -> tuple[Network, ...]:
        return _networks(self.webhook_allow)

    @property
    def webhook_schedule(self) -> tuple[float, ...]:
        return _schedule(self.webhook_schedule_seconds)

    @property
    def sqlalchemy_url(self) -> str:
        return self.database_url or f"sqlite:///{self.data_dir.absolute() / 'gramian.db'}"

    @property
    def keys_required(self) -> bool:
        if self.require_keys is not None:
            return self.require_keys
        return not (self.open_network or _is_loopback(self.host))

    def sealing_key(self) -> bytes:
        """What stored secrets are sealed with; the first process to ask makes it, if the operator gave none."""
        return self.secret_key.get_secret_value().encode() if self.secret_key else key_in(self.data_dir)

    @property
    def hub_token(self) -> str | None:
        return self.hf_token.get_secret_value() if self.hf_token else None


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _networks(text: str) -> tuple[Network, ...]:
    return tuple(ipaddress.ip_network(part.strip()) for part in text.split(",") if part.strip())


def _schedule(text: str) -> tuple[float, ...]:
    waits = tuple(float(part) for part in text.split(","))
    if not all(0 <= seconds < math.inf for seconds in waits):
        raise ValueError("waits are seconds, 0 or more")
    return waits


_LISTS: Mapping[str, Callable[[str], object]] = {"webhook_allow": _networks, "webhook_schedule_seconds": _schedule}
