"""REST in front of the orchestrator, in routes only: what they ask is in `views`, what they want done in `state`."""

from __future__ import annotations

from fastapi import FastAPI

from cep.service.serving import Bodies
from orchestrator.rest import cluster_routes, many, openapi, problems, query_routes, stream_routes
from orchestrator.rest.api import Api
from orchestrator.rest.bodies import bytes_max
from orchestrator.rest.guard import Guard
from orchestrator.rest.rate_limit import RateLimit

REQUESTS_MAX = 2048
"""So many are answered at a time, long-polls among them."""


def make_rest_app(api: Api) -> FastAPI:
    """The application."""
    app = FastAPI(
        title="CEP orchestrator",
        version="1",
        description="Deploys and watches continuous queries. Errors are RFC 9457 problem details.",
        docs_url=None,
        redoc_url=None,
    )
    app.state.api = api
    for routes in (query_routes, stream_routes, cluster_routes, many):
        app.include_router(routes.router)
    problems.install(app)
    openapi.complete(app)
    openapi.add_page(app)
    app.add_middleware(Bodies, most=bytes_max, requests_max=REQUESTS_MAX, refuse=problems.refusal)
    if api.config.requests_per_s_max is not None:
        app.add_middleware(RateLimit, per_s=api.config.requests_per_s_max, now=api.now)
    app.add_middleware(Guard, config=api.config)
    return app
