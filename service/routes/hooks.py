"""Incoming webhooks: of the Hub, and signed ones of any other tool. What they tell of watched models is analysed."""

import hmac
import json
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Query, Request, Response, Security
from fastapi.concurrency import run_in_threadpool
from fastapi.security import APIKeyHeader

from gramian.errors import InvalidParameter
from gramian.pushes import HookDisabled, HookRefused, Told, read_generic, read_hub_webhook
from gramian.webhooks import is_signed
from service.dependencies import Services, ServicesDep
from service.following import follow
from service.problems import responses
from service.schemas.hooks import HookAnswer

BODY_LIMIT_BYTES = 1024**2
OK, ACCEPTED = 200, 202

hub_secret = APIKeyHeader(name="X-Webhook-Secret", scheme_name="hub_webhook", auto_error=False)
signature = APIKeyHeader(
    name="webhook-signature",
    scheme_name="standard_webhook",
    auto_error=False,
    description="with `webhook-id` and `webhook-timestamp`, as the Standard Webhooks specification has it",
)

MESSAGE = {
    "requestBody": {
        "required": True,
        "content": {"application/json": {"schema": {"type": "object", "additionalProperties": True}}},
    }
}
ANSWERS = responses(
    *(400, 401, 403, 413, 422),
    more={200: {"model": HookAnswer, "description": "Understood, and nothing new: `reason` says why"}},
)

router = APIRouter(prefix="/v1/hooks", tags=["watches"], responses=ANSWERS)


async def from_hub(
    request: Request,
    services: ServicesDep,
    header: Annotated[str | None, Security(hub_secret)],
    secret: Annotated[str | None, Query(description="where the secret cannot be a header", max_length=1024)] = None,
) -> Told:
    """What the Hub tells, if it is the Hub."""
    expected = services.settings.hub_webhook_secret
    if expected is None:
        raise HookDisabled(
            "this service takes no webhooks of the Hub", hint="the operator sets GRAMIAN_HUB_WEBHOOK_SECRET"
        )
    sent = (header or secret or "").encode()
    if not hmac.compare_digest(sent, expected.get_secret_value().encode()):
        raise HookRefused(
            "the webhook's secret is missing or wrong", hint="type GRAMIAN_HUB_WEBHOOK_SECRET into the Hub's webhook"
        )
    return read_hub_webhook(_object(await request.body()))


async def from_a_tool(request: Request, services: ServicesDep, _: Annotated[str | None, Security(signature)]) -> Told:
    """What another tool tells, if it has signed it."""
    secret = services.settings.generic_hook_secret
    if secret is None:
        raise HookDisabled(
            "this service takes no signed messages", hint="the operator sets GRAMIAN_GENERIC_HOOK_SECRET"
        )
    body = await request.body()
    if not is_signed(body, request.headers, secret=secret.get_secret_value()):
        raise HookRefused(
            "the message is not signed with the secret, or not within five minutes of now",
            hint="sign the raw body as the Standard Webhooks specification has it, for example with `standardwebhooks`",
        )
    return read_generic(_object(body))


@router.post(
    "/huggingface",
    status_code=ACCEPTED,
    response_model=HookAnswer,
    max_body_size=BODY_LIMIT_BYTES,
    openapi_extra=MESSAGE,
)
async def take_hub_webhook(
    request: Request, services: ServicesDep, told: Annotated[Told, Depends(from_hub)]
) -> Response:
    """A webhook of the Hugging Face Hub. New commits of watched models are analysed, each once."""
    return await _answer(services, told, request)


@router.post(
    "/generic", status_code=ACCEPTED, response_model=HookAnswer, max_body_size=BODY_LIMIT_BYTES, openapi_extra=MESSAGE
)
async def take_signed_message(
    request: Request, services: ServicesDep, told: Annotated[Told, Depends(from_a_tool)]
) -> Response:
    """A message of any other tool: `{"type": "model.updated", "data": {"model_id", "revision", "commit"}}`."""
    return await _answer(services, told, request)


async def _answer(services: Services, told: Told, request: Request) -> Response:
    followed = []
    for push in told.pushes:
        followed += await run_in_threadpool(follow, services, push, request_id=request.scope["request_id"])
    answer = HookAnswer.of(told, followed)
    status = ACCEPTED if answer.outcome == "accepted" else OK
    return Response(answer.model_dump_json(), status, media_type="application/json")


def _object(body: bytes) -> dict[str, Any]:
    try:
        found = json.loads(body)
    except (ValueError, RecursionError):
        raise InvalidParameter("", "the body is not JSON", hint="send the message as it is") from None
    if not isinstance(found, dict):
        raise InvalidParameter("", "the message is no JSON object", hint="send the message as it is")
    return found
