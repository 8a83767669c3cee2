"""The console: pages that show what a cluster does, over its public REST interface (docs/console.md)."""
