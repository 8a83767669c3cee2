"""What users import: the query builder, clusters, publishers and subscriptions."""

from cep.errors import (
    CepError,
    ClusterError,
    Conflict,
    DataError,
    NotFound,
    PlacementError,
    QueryError,
    QueryFailed,
    QueryStopped,
    StreamEnded,
)
from cep.model.expr import coalesce, col, lit, now
from cep.model.functions import avg, count, first, last, max_, min_, sum_, window_end, window_start
from cep.model.windows import TIME
from driver.cluster import Cluster, Running
from driver.local import LocalCluster
from driver.publisher import Publisher
from driver.query import Query, files, stream
from driver.subscription import Subscription

__all__ = [
    "TIME",
    "CepError",
    "Cluster",
    "ClusterError",
    "Conflict",
    "DataError",
    "LocalCluster",
    "NotFound",
    "PlacementError",
    "Publisher",
    "Query",
    "QueryError",
    "QueryFailed",
    "QueryStopped",
    "Running",
    "StreamEnded",
    "Subscription",
    "avg",
    "coalesce",
    "col",
    "count",
    "files",
    "first",
    "last",
    "lit",
    "max_",
    "min_",
    "now",
    "stream",
    "sum_",
    "window_end",
    "window_start",
]
