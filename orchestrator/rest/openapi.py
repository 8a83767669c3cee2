"""What the OpenAPI document says beyond what the routes' signatures do: the schema of a query, and which problems each route answers with;
and the page that shows it, made of files of ours, so that it needs no other host."""

from __future__ import annotations

from collections.abc import Iterator
from http import HTTPStatus
from importlib.resources import files
from typing import Any

from fastapi import FastAPI
from fastapi.openapi.docs import get_swagger_ui_html
from fastapi.responses import HTMLResponse
from fastapi.staticfiles import StaticFiles

from cep.service import query_schema
from orchestrator.rest import problems
from orchestrator.rest.examples import EXAMPLES
from orchestrator.rest.guard import PAGE
from orchestrator.rest.roles import needed

_ASSETS = "/docs-assets"
_POLICY = "default-src 'self'; script-src 'self' 'unsafe-inline'; style-src 'self' 'unsafe-inline'; img-src 'self' data:"
_PROBLEM = {"content": {problems.MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/Problem"}}}}
_METHODS = ("get", "put", "post", "delete")
_WHY = {
    400: "The request, or the document in it, cannot be read.",
    401: "The cluster has tokens, and this is none of them.",
    403: "The token does not have the role that is needed, which the answer names; without tokens, it comes from a page of another site, "
    "or is for a host that is not this one.",
    404: "Nothing of that name is there.",
    409: "It cannot be as things are: something else has that name, the cluster has too little for it, or the query has failed.",
    410: "The stream is over, and what was not read is gone.",
    413: "The body is too long.",
    415: "The body is neither JSON nor YAML, or YAML where only JSON is taken.",
    422: "A parameter, the document, or a row is not as it should be; `pointer` says where.",
    429: "Too much is asked for at a time.",
    503: "No orchestrator leads, or a part of the cluster that is needed does not answer.",
    507: "A disk is full.",
}


def complete(app: FastAPI) -> None:
    """Completes the application's OpenAPI document."""
    made = app.openapi

    def complete() -> dict[str, Any]:
        document = made()
        document["components"]["schemas"] |= query_schema.query_components() | {"Problem": problems.Problem.model_json_schema()}
        for name in ("HTTPValidationError", "ValidationError"):
            document["components"]["schemas"].pop(name, None)
        for path, operations in document["paths"].items():
            for method in operations.keys() & set(_METHODS):
                _add_problems(path, method, operations[method])
                _restore_nulls(operations[method])
        return document

    app.openapi = complete  # type: ignore[method-assign]  # FastAPI's way of extending it


def _restore_nulls(operation: dict[str, Any]) -> None:
    """FastAPI leaves nulls out, and a query that lacks such a key is none."""
    for content in operation.get("requestBody", {}).get("content", {}).values():
        for name, example in content.get("examples", {}).items():
            if name in EXAMPLES:
                example["value"] = EXAMPLES[name]


def _add_problems(path: str, method: str, operation: dict[str, Any]) -> None:
    operation["description"] = f"{operation.get('description', '')}\n\nNeeds {needed(method.upper(), path).words}.".strip()
    answers = operation["responses"]
    answers.pop("422", None)  # as FastAPI would say it
    for status in _statuses(path, method, operation):
        answers.setdefault(str(status), {"description": f"{HTTPStatus(status).phrase}. {_WHY[status]}", **_PROBLEM})


def _statuses(path: str, method: str, operation: dict[str, Any]) -> Iterator[int]:
    yield from (400, 401, 403, 429, 503)
    if "parameters" in operation or "requestBody" in operation:
        yield from (404, 409, 422)
    if "requestBody" in operation:
        yield from (413, 415)
    if method != "get":
        yield 507
    if path.endswith(("/answers", "/events")):
        yield 410
    if path.startswith("/keys"):
        yield 409


def add_page(app: FastAPI) -> None:
    """The page: Swagger UI, as the package `fastapi-offline` brings its files along."""
    app.mount(_ASSETS, StaticFiles(directory=str(files("fastapi_offline") / "static")))

    @app.get(PAGE, include_in_schema=False)
    async def page() -> HTMLResponse:
        found = get_swagger_ui_html(
            openapi_url=str(app.openapi_url),
            title=app.title,
            swagger_js_url=f"{_ASSETS}/swagger-ui-bundle.js",
            swagger_css_url=f"{_ASSETS}/swagger-ui.css",
            swagger_favicon_url=f"{_ASSETS}/favicon.png",
            swagger_ui_parameters={"validatorUrl": None},
        )
        found.headers["Content-Security-Policy"] = _POLICY
        return found
