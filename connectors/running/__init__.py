"""The process that runs connectors (`python -m connectors.running '<config>'`): a client of the cluster as any other."""
