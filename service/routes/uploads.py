"""Uploads: raw bytes in, streamed to disk, hashed on the way."""

import asyncio
from typing import Annotated

from fastapi import APIRouter, Query, Request, Response
from fastapi.concurrency import run_in_threadpool
from starlette.requests import ClientDisconnect

from gramian.errors import EmptyUpload, UploadInterrupted, UploadTooLarge
from gramian.storage import deleting
from gramian.storage.blobs import IncomingBlob
from service import operations
from service.authorization import READ, WRITE
from service.callers import CallerDep
from service.dependencies import ServicesDep, UploadDep, WritingDep
from service.problems import responses
from service.schemas.uploads import Upload

CHUNK_BYTES = 4 * 1024**2  # handed to a thread at once: few hops, and little of a large file in memory

router = APIRouter(prefix="/v1/uploads", tags=["uploads"], dependencies=[READ])


@router.post(
    "",
    status_code=201,
    dependencies=[WRITE],
    responses=responses(408, 413, 422, 429, 507),
    openapi_extra={
        "requestBody": {
            "required": True,
            "content": {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}},
        }
    },
)
async def create_upload(
    request: Request,
    response: Response,
    services: ServicesDep,
    caller: CallerDep,
    filename: Annotated[str, Query(max_length=255, pattern=r"^[^\x00-\x1f\x7f]*$")] = "weights",
) -> Upload:
    """Store a weight file (the raw body). Its format is told by its bytes; the name is only remembered."""
    limit = services.settings.upload_max_bytes
    announced = int(length) if (length := request.headers.get("content-length", "")).isdecimal() else 0
    _check_size(announced, limit)
    await run_in_threadpool(operations.check_upload, services, caller, announced)
    await run_in_threadpool(services.blobs.check_room, announced)
    incoming = await run_in_threadpool(services.blobs.receive)
    try:
        await _receive(request, services, incoming)
        row = await run_in_threadpool(operations.store_upload, services, caller, incoming, filename)
    finally:
        await run_in_threadpool(incoming.discard)  # leaves a published file alone
    response.headers["Location"] = str(request.app.url_path_for("get_upload", upload_id=row.id))
    return Upload.model_validate(row)


@router.get("/{upload_id}", responses=responses(404))
def get_upload(upload: UploadDep) -> Upload:
    """What was stored, and the tensors in it."""
    return Upload.model_validate(upload)


@router.delete("/{upload_id}", dependencies=[WRITE], status_code=204, responses=responses(404, 409))
def delete_upload(upload_id: str, services: ServicesDep, uow: WritingDep) -> None:
    """Delete the file. Results of its analyses stay."""
    deleting.delete_upload(uow, uow.uploads.get(upload_id), engine=services.engine, blobs=services.blobs)


async def _receive(request: Request, services: ServicesDep, incoming: IncomingBlob) -> None:
    settings = services.settings
    stream = request.stream()
    buffer = bytearray()
    received = 0
    while True:
        try:
            async with asyncio.timeout(settings.upload_idle_seconds):
                chunk = await anext(stream, None)
        except TimeoutError:
            raise UploadInterrupted(
                f"nothing arrived for {settings.upload_idle_seconds:g} s after {received:,} bytes",
                hint="send the whole file again, without long pauses",
            ) from None
        except ClientDisconnect:
            raise UploadInterrupted(f"the connection ended after {received:,} bytes", hint="send it again") from None
        if chunk:
            received += len(chunk)
            _check_size(received, settings.upload_max_bytes)
            buffer += chunk
        if len(buffer) >= CHUNK_BYTES or (chunk is None and buffer):
            await run_in_threadpool(services.blobs.check_room, len(buffer))
            await run_in_threadpool(incoming.write, bytes(buffer))
            buffer.clear()
        if chunk is None:
            break
    if received == 0:
        raise EmptyUpload("the body has no bytes", hint="send the file's bytes as the request body")


def _check_size(size: int, limit: int) -> None:
    if size > limit:
        raise UploadTooLarge(
            f"{size:,} bytes or more; this service accepts {limit:,}",
            hint="upload only the vocabulary matrices, or ask the operator to raise GRAMIAN_UPLOAD_MAX_BYTES",
        )
