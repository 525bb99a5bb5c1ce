"""What all tests share."""

pytest_plugins = ["tests.feature_report"]
