"""YAML and Python declarations, judged by the connectors' models, become one spec."""
