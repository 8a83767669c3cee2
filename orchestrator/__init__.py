"""The control plane: what should run where, written to ZooKeeper; REST in front of it; the metric server beside it."""
