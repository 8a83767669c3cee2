"""The pages, a module each: `register` adds it. What it shows comes from the `ClusterWatch` of the process, which asks the cluster once for
all pages that are open."""
