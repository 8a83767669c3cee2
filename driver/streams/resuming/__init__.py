"""What a subscription keeps to go on with: in another process, and when its query recovers."""
