"""The data path. Read in order: source, files, operators, balancer, output, channel, instance, build; then `local`, its double."""
