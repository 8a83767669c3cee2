"""What users import: the query builder, clusters, publishers and subscriptions.

Names are loaded when they are first asked for: the supervisor of a local cluster lives in this package too, and does without them.
"""

from importlib import import_module
from typing import Any

_HOME = {
    "CepError": "cep.errors",
    "Cluster": "driver.cluster",
    "ClusterError": "cep.errors",
    "Conflict": "cep.errors",
    "DataError": "cep.errors",
    "LocalCluster": "driver.local",
    "NotFound": "cep.errors",
    "PlacementError": "cep.errors",
    "Publisher": "driver.publisher",
    "Query": "driver.query",
    "QueryError": "cep.errors",
    "QueryFailed": "cep.errors",
    "QueryStopped": "cep.errors",
    "Running": "driver.cluster",
    "SESSION": "cep.model.windows",
    "SIZE": "cep.model.windows",
    "StreamEnded": "cep.errors",
    "Subscription": "driver.subscription",
    "TIME": "cep.model.windows",
    "TRANSACTION": "cep.model.windows",
    "UNBOUNDED": "cep.model.windows",
    "aggregate_function": "driver.functions",
    "approx_count_distinct": "cep.model.functions",
    "arg_max": "cep.model.functions",
    "arg_min": "cep.model.functions",
    "atan2": "cep.model.expr_functions",
    "avg": "cep.model.functions",
    "coalesce": "cep.model.expr",
    "col": "cep.model.expr",
    "collect": "cep.model.functions",
    "concat": "cep.model.expr_functions",
    "count": "cep.model.functions",
    "count_distinct": "cep.model.functions",
    "deploy": "driver.engines",
    "files": "driver.query",
    "first": "cep.model.functions",
    "from_epoch": "cep.model.expr_functions",
    "greatest": "cep.model.expr_functions",
    "hash_": "cep.model.expr_functions",
    "last": "cep.model.functions",
    "least": "cep.model.expr_functions",
    "lit": "cep.model.expr",
    "max_": "cep.model.functions",
    "median": "cep.model.functions",
    "min_": "cep.model.functions",
    "now": "cep.model.expr",
    "nullif": "cep.model.expr_functions",
    "quantile": "cep.model.functions",
    "stddev": "cep.model.functions",
    "stddev_pop": "cep.model.functions",
    "stream": "driver.query",
    "sum_": "cep.model.functions",
    "try_": "cep.model.expr_functions",
    "udf": "driver.functions",
    "var": "cep.model.functions",
    "var_pop": "cep.model.functions",
    "when": "cep.model.expr_functions",
    "window_end": "cep.model.functions",
    "window_start": "cep.model.functions",
}

__all__ = list(_HOME)


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_HOME[name]), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
