"""The processes of a cluster: started, kept up, watched, ended."""
