"""The kinds of operators of a query, one frozen value each (what each yields, when and in which order: docs/semantics.md).

Times and spans of time are µs. A new kind is a file here, a line in `TYPES`, and what runs it in `cep/dataflow/operators/factory.py`.
"""

from cep.model.contract.matching import JOINS as JOINS
from cep.model.contract.matching import Pairs as Pairs
from cep.model.contract.operator import Fields as Fields
from cep.model.contract.operator import Operator as Operator
from cep.model.contract.operator import Origins as Origins
from cep.model.contract.operator import registry
from cep.model.operators.aggregate import Aggregate as Aggregate
from cep.model.operators.apply import Apply as Apply
from cep.model.operators.as_of_join import AsOfJoin as AsOfJoin
from cep.model.operators.deduplicate import Deduplicate as Deduplicate
from cep.model.operators.delay import Delay as Delay
from cep.model.operators.demux import Demux as Demux
from cep.model.operators.filter import Filter as Filter
from cep.model.operators.flat_map import FlatMap as FlatMap
from cep.model.operators.interval_join import IntervalJoin as IntervalJoin
from cep.model.operators.join import Join as Join
from cep.model.operators.keep_last import KeepLast as KeepLast
from cep.model.operators.lookup import Lookup as Lookup
from cep.model.operators.map import Map as Map
from cep.model.operators.over import Over as Over
from cep.model.operators.pattern import Pattern as Pattern
from cep.model.operators.pattern_ways import PatternBranch as PatternBranch
from cep.model.operators.pattern_ways import PatternWays as PatternWays
from cep.model.operators.sample import Sample as Sample
from cep.model.operators.sample_n import SampleN as SampleN
from cep.model.operators.sort import Sort as Sort
from cep.model.operators.stateful_map import StatefulMap as StatefulMap
from cep.model.operators.table_versions import TableVersions as TableVersions
from cep.model.operators.top_n import TopN as TopN
from cep.model.operators.union import Union as Union
from cep.model.operators.versioned_lookup import VersionedLookup as VersionedLookup
from cep.model.operators.zip import Zip as Zip

#: type -> class
TYPES = registry(
    map=Map,
    filter=Filter,
    union=Union,
    demux=Demux,
    flat_map=FlatMap,
    apply=Apply,
    delay=Delay,
    sample=Sample,
    lookup=Lookup,
    aggregate=Aggregate,
    join=Join,
    interval_join=IntervalJoin,
    as_of_join=AsOfJoin,
    zip=Zip,
    sort=Sort,
    top_n=TopN,
    sample_n=SampleN,
    deduplicate=Deduplicate,
    keep_last=KeepLast,
    over=Over,
    stateful_map=StatefulMap,
    pattern=Pattern,
)

#: What others are said for short for, and only plans have.
PLANNED = registry(table_versions=TableVersions, versioned_lookup=VersionedLookup, pattern_ways=PatternWays, pattern_branch=PatternBranch)
