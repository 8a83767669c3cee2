"""What users import: the query builder, clusters, publishers and subscriptions.

Names are loaded when they are first asked for: the supervisor of a local cluster lives in this package too, and does without them.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # what type checkers and editors see
    from cep.errors import CepError as CepError
    from cep.errors import ClusterError as ClusterError
    from cep.errors import Conflict as Conflict
    from cep.errors import DataError as DataError
    from cep.errors import NotFound as NotFound
    from cep.errors import PlacementError as PlacementError
    from cep.errors import QueryError as QueryError
    from cep.errors import QueryFailed as QueryFailed
    from cep.errors import QueryStopped as QueryStopped
    from cep.errors import StreamEnded as StreamEnded
    from cep.model.expr import coalesce as coalesce
    from cep.model.expr import col as col
    from cep.model.expr import lit as lit
    from cep.model.expr import now as now
    from cep.model.expr_functions import atan2 as atan2
    from cep.model.expr_functions import concat as concat
    from cep.model.expr_functions import from_epoch as from_epoch
    from cep.model.expr_functions import greatest as greatest
    from cep.model.expr_functions import hash_ as hash_
    from cep.model.expr_functions import least as least
    from cep.model.expr_functions import nullif as nullif
    from cep.model.expr_functions import try_ as try_
    from cep.model.expr_functions import when as when
    from cep.model.functions import approx_count_distinct as approx_count_distinct
    from cep.model.functions import arg_max as arg_max
    from cep.model.functions import arg_min as arg_min
    from cep.model.functions import avg as avg
    from cep.model.functions import collect as collect
    from cep.model.functions import count as count
    from cep.model.functions import count_distinct as count_distinct
    from cep.model.functions import first as first
    from cep.model.functions import last as last
    from cep.model.functions import max_ as max_
    from cep.model.functions import median as median
    from cep.model.functions import min_ as min_
    from cep.model.functions import quantile as quantile
    from cep.model.functions import stddev as stddev
    from cep.model.functions import stddev_pop as stddev_pop
    from cep.model.functions import sum_ as sum_
    from cep.model.functions import var as var
    from cep.model.functions import var_pop as var_pop
    from cep.model.functions import window_end as window_end
    from cep.model.functions import window_start as window_start
    from cep.model.windows import SESSION as SESSION
    from cep.model.windows import SIZE as SIZE
    from cep.model.windows import TIME as TIME
    from cep.model.windows import TRANSACTION as TRANSACTION
    from cep.model.windows import UNBOUNDED as UNBOUNDED
    from driver.cluster import Cluster as Cluster
    from driver.cluster import Running as Running
    from driver.engines import deploy as deploy
    from driver.functions import aggregate_function as aggregate_function
    from driver.functions import udf as udf
    from driver.local import LocalCluster as LocalCluster
    from driver.publisher import Publisher as Publisher
    from driver.query import Query as Query
    from driver.query import files as files
    from driver.query import stream as stream
    from driver.subscription import Subscription as Subscription

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
