"""The data path. Read in order: elements, source, operator, aggregate, balancer, channel, instance."""
