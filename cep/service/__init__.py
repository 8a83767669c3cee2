"""What all processes of a cluster share: documents, marks, reports, HTTP."""
