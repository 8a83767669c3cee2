"""REST in front of the orchestrator, in routes only: what they ask is in `views`, what they want done in `state`."""

from __future__ import annotations

from collections.abc import Iterator

from fastapi import FastAPI
from starlette.routing import Mount, Route

from cep.service.serving import Bodies
from orchestrator.rest import (
    application_routes,
    cluster_routes,
    host_routes,
    key_routes,
    many,
    openapi,
    problems,
    query_routes,
    stream_routes,
)
from orchestrator.rest.api import Api
from orchestrator.rest.bodies import bytes_max
from orchestrator.rest.connecting import routes as connector_routes
from orchestrator.rest.guard import Guard
from orchestrator.rest.looking import history_routes, preview_routes
from orchestrator.rest.rate_limit import RateLimit
from orchestrator.rest.roles import check_table

ROUTERS = (
    query_routes,
    preview_routes,
    stream_routes,
    cluster_routes,
    history_routes,
    host_routes,
    key_routes,
    application_routes,
    connector_routes,
    many,
)

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
    for routes in ROUTERS:  # as they are: FastAPI would make each of them anew, which takes a tenth of the start
        app.router.routes.extend(routes.router.routes)
    problems.install(app)
    openapi.complete(app)
    openapi.add_page(app)
    app.add_middleware(Bodies, most=bytes_max, requests_max=REQUESTS_MAX, refuse=problems.refusal)
    if api.config.requests_per_s_max is not None:
        app.add_middleware(RateLimit, per_s=api.config.requests_per_s_max, now=api.now)
    app.add_middleware(Guard, config=api.config, tokens=api.tokens, on_wrong=api.audit.note_wrong_token)
    check_table(served(app))
    return app


def served(app: FastAPI) -> Iterator[tuple[str, str]]:
    """(method, path) of all that is served. Raises KeyError: something is served of which nothing says what role it needs."""
    for route in app.routes:
        if isinstance(route, Route):
            yield from ((method, route.path_format) for method in route.methods or () if method != "HEAD")
        elif isinstance(route, Mount):
            yield "GET", route.path
        else:  # as newer versions of FastAPI list a router that is included
            raise KeyError(f"{route!r} cannot be served: nothing says which role it needs")
