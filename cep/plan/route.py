"""How publishers choose the replica of a row: by key, so that a group is in one of them (rule 6.4)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from cep.model.schema import Field, Schema
from cep.plan.balancers import route_fields
from cep.plan.physical import Edge, PhysicalPlan
from cep.plan.validate import validate


@dataclass(frozen=True)
class Route:
    """replica = (hash(fields) mod buckets) mod replicas. `fields` have the types in which their values meet those of other streams."""

    fields: tuple[Field, ...]
    buckets: int
    replicas: int

    @staticmethod
    def of(plan: PhysicalPlan, edge: Edge) -> Route | None:
        """On an input edge; None: any reader may get any row."""
        if not edge.fields or plan.query.options.replicas == 1:
            return None
        schemas = validate(plan.query, plan.streams).schemas
        return Route(route_fields(plan, edge, schemas), plan.buckets, plan.query.options.replicas)

    def to_json(self) -> dict[str, Any]:
        return {"fields": Schema(self.fields).to_json(), "buckets": self.buckets, "replicas": self.replicas}

    @staticmethod
    def from_json(document: Any) -> Route:
        return Route(Schema.from_json(document["fields"]).fields, document["buckets"], document["replicas"])
