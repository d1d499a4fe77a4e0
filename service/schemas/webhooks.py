"""Receivers of webhooks, and what they were sent."""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, AwareDatetime, BaseModel, ConfigDict, Field, StringConstraints

from gramian.storage.webhook_tables import DeliveryRow, DeliveryStatus, EndpointRow, EndpointStatus
from gramian.webhooks import EVERY_EVENT, AnalysisEvent, EventType

Url = Annotated[str, StringConstraints(min_length=1, max_length=2048, pattern=r"^[^\x00-\x20\x7f]+$")]
Text = Annotated[str, StringConstraints(max_length=400, pattern=r"^[^\x00-\x1f\x7f]*$")]
Events = Annotated[
    list[EventType | Literal["*"]],
    Field(min_length=1, max_length=20),
    AfterValidator(lambda events: list(dict.fromkeys(events))),
]


class Callback(BaseModel):
    """Where to tell of the analysis's end. Signed with the secret of the endpoint `callbacks`."""

    model_config = ConfigDict(extra="forbid")

    url: Url = Field(examples=["https://example.org/hooks/gramian"])
    events: Annotated[list[AnalysisEvent | Literal["*"]], Field(min_length=1, max_length=20)] = [EVERY_EVENT]


class EndpointRequest(BaseModel):
    model_config = ConfigDict(extra="forbid")

    url: Url = Field(examples=["https://example.org/hooks/gramian"])
    events: Events = Field([EVERY_EVENT], description="`*`: all there are, and those to come")
    description: Text = ""


class EndpointChange(BaseModel):
    """What is left out stays as it is."""

    model_config = ConfigDict(extra="forbid")

    url: Url | None = None
    events: Events | None = None
    description: Text | None = None
    status: Literal["enabled", "disabled"] | None = Field(
        None, description="enabling starts a paused endpoint anew; what it missed is sent by `replay`"
    )


class SecretRotation(BaseModel):
    model_config = ConfigDict(extra="forbid")

    overlap_hours: float = Field(24, ge=0, le=24 * 90, description="how long the old secret signs beside the new one")


class Replay(BaseModel):
    model_config = ConfigDict(extra="forbid")

    since: AwareDatetime = Field(description="the time from which messages are sent once more")
    statuses: Annotated[list[Literal["failed", "held", "succeeded"]], Field(min_length=1, max_length=3)] = [
        "failed",
        "held",
    ]


class Replayed(BaseModel):
    redelivered: int = Field(description="how many messages are on their way again")


class Endpoint(BaseModel):
    """A receiver. The one without `url` stands for all callbacks of the project."""

    id: str
    url: str | None
    events: list[str]
    description: str
    status: EndpointStatus
    reason: str | None = Field(description="why it gets nothing")
    created_at: datetime
    failing_since: datetime | None = Field(description="the first failure since a message got through")
    old_secret_until: datetime | None = Field(description="until when the secret before signs too")

    @classmethod
    def from_row(cls, row: EndpointRow) -> Self:
        return cls(**_fields(row))


class NewEndpoint(Endpoint):
    secret: str = Field(description="verifies signatures; shown once", examples=["whsec_…"])

    @classmethod
    def with_secret(cls, row: EndpointRow, secret: str) -> Self:
        return cls(secret=secret, **_fields(row))


class EndpointList(BaseModel):
    items: list[Endpoint]


class Attempt(BaseModel):
    model_config = ConfigDict(from_attributes=True)

    number: int
    at: datetime
    seconds: float
    url: str
    request_headers: dict[str, str]
    response_status: int | None
    response_body: str | None = Field(description="its beginning")
    error: dict[str, str] | None = Field(description="why there was no answer")


class Delivery(BaseModel):
    """A message to one receiver."""

    id: str
    endpoint_id: str
    url: str | None
    message_id: str = Field(description="`webhook-id`: the same for all receivers and attempts")
    type: str
    status: DeliveryStatus
    reason: str | None = Field(description="why it is not tried any more")
    attempts: int
    created_at: datetime
    next_attempt_at: datetime | None
    finished_at: datetime | None

    @classmethod
    def from_row(cls, row: DeliveryRow) -> Self:
        return cls(**_delivery_fields(row))


class DeliveryDetail(Delivery):
    payload: str = Field(description="the body, letter by letter as it is signed and sent")
    log: list[Attempt]

    @classmethod
    def from_row(cls, row: DeliveryRow) -> Self:
        log = [Attempt.model_validate(attempt) for attempt in row.log]
        return cls(payload=row.payload, log=log, **_delivery_fields(row))


class DeliveryList(BaseModel):
    items: list[Delivery]
    next_cursor: str | None

    @classmethod
    def from_rows(cls, rows: Sequence[DeliveryRow], next_cursor: str | None) -> Self:
        return cls(items=[Delivery.from_row(row) for row in rows], next_cursor=next_cursor)


def _fields(row: EndpointRow) -> dict[str, Any]:
    return {name: getattr(row, name) for name in Endpoint.model_fields}


def _delivery_fields(row: DeliveryRow) -> dict[str, Any]:
    names = set(Delivery.model_fields) - {"url", "next_attempt_at"}
    due = datetime.fromtimestamp(row.due_at, UTC) if row.due_at is not None else None
    return {name: getattr(row, name) for name in names} | {
        "url": row.url or row.endpoint.url,
        "next_attempt_at": due if row.status == DeliveryStatus.PENDING else None,
    }
