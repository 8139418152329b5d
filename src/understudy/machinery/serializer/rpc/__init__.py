"""gRPC calls: channels, and the messages that they send in protobuf."""
