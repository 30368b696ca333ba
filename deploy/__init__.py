"""What is deployed: manifests, monitoring, storage; and what a release is made of."""
