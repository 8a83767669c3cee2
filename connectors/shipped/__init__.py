"""The connectors that are shipped, a file each; what each needs is loaded when it runs."""
