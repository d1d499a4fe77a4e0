"""The application, composed in one place."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from fastapi import FastAPI
from pydantic.json_schema import models_json_schema

import gramian
from gramian.egress import Guard
from gramian.sealing import Seal
from gramian.settings import Settings
from gramian.storage.blobs import BlobStore, artifact_store
from gramian.storage.engine import open_engine
from service import problems
from service.access import Access
from service.body_limits import BodyLimitProblems
from service.dependencies import Services
from service.dispatch import Dispatcher
from service.feed import Feed
from service.metrics import Backlog, ServiceMetrics
from service.operations import blob_folder
from service.rate_limits import RateLimiter, RateLimitHeaders
from service.requests import RequestIds
from service.routes import (
    analyses,
    audit,
    capacity,
    events,
    health,
    history,
    hooks,
    keys,
    metrics,
    packing_fits,
    pictures,
    projects,
    published,
    registry,
    scaling,
    toy_cells,
    uploads,
    watches,
    webhook_endpoints,
)
from service.server import Departure

DESCRIPTION = """How much room for features is left in a language model's latent space, and how superposed its
representations are. Ask for an analysis of a model id, a file or a folder; read exact numbers with their errors."""


def create_app(settings: Settings, departure: Departure | None = None) -> FastAPI:
    """The service for these settings. Connections open with the first request and close at shutdown.

    `departure` is the server's, if it has one: the application is not ready any more once that has begun.
    """
    departing = departure or Departure()
    counts = ServiceMetrics()

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        engine = open_engine(settings.sqlalchemy_url)
        services = Services(
            settings=settings,
            engine=engine,
            blobs=BlobStore(blob_folder(settings.data_dir), reserve_bytes=settings.disk_reserve_bytes),
            artifacts=artifact_store(settings),
            dispatcher=(dispatcher := Dispatcher(settings)),
            feed=Feed(engine),
            departure=departing,
            metrics=counts,
            guard=Guard(settings.webhook_networks),
            seal=Seal(settings.sealing_key()),
            limiter=RateLimiter(dispatcher.redis),
        )
        backlog = Backlog(engine)
        counts.registry.register(backlog)
        app.state.services = services
        loop = asyncio.get_running_loop()
        departing.let_watchers_go = lambda: loop.call_soon_threadsafe(services.feed.close)
        yield
        counts.registry.unregister(backlog)
        services.feed.close()
        services.dispatcher.close()
        engine.dispose()

    app = FastAPI(
        title="Gramian",
        version=gramian.__version__,
        description=DESCRIPTION,
        lifespan=lifespan,
        docs_url=None,  # the stock page loads its assets from a CDN
        redoc_url=None,
        separate_input_output_schemas=False,
    )
    app.state.settings = settings
    problems.install(app)
    for module in (
        analyses,
        events,
        pictures,
        uploads,
        capacity,
        packing_fits,
        scaling,
        toy_cells,
        published,
        registry,
        history,
        health,
        metrics,
        keys,
        projects,
        webhook_endpoints,
        watches,
        hooks,
        audit,
    ):
        app.include_router(module.router)
    app.add_middleware(BodyLimitProblems)
    app.add_middleware(RateLimitHeaders)
    app.add_middleware(Access, metrics=counts)
    app.add_middleware(RequestIds)  # around the other: its line carries the id
    _describe_problems(app)
    return app


def _describe_problems(app: FastAPI) -> None:
    """Put the problem document's schema into the OpenAPI document, and let it stand for validation errors too."""
    generate = app.openapi

    def openapi() -> dict[str, object]:
        document = generate()
        schemas = document["components"]["schemas"]
        _, definitions = models_json_schema(
            [(problems.Problem, "serialization")], ref_template="#/components/schemas/{model}"
        )
        schemas.update(definitions["$defs"])
        for name in ("HTTPValidationError", "ValidationError"):
            schemas.pop(name, None)
        for path in document["paths"].values():
            for operation in path.values():
                found = operation["responses"]
                if "422" in found:
                    found["422"] = problems.responses(422)[422]
        return document

    app.openapi = openapi  # type: ignore[method-assign]
