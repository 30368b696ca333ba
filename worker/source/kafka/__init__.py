"""Jobs from Kafka: a consumer group shares out partitions, offsets are committed in order."""
