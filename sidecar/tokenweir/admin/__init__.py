"""The admin port: health, readiness and metrics, for whoever runs the pod."""
