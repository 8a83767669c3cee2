"""What every connector has to hold: suites for authors, run by pytest (docs/connectors.md)."""

from connectors.conformance.bench import SinkBench, SourceBench
from connectors.conformance.sink_suite import SinkSuite
from connectors.conformance.source_suite import SourceSuite

__all__ = ["SinkBench", "SinkSuite", "SourceBench", "SourceSuite"]
